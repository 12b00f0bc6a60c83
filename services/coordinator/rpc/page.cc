#include "services/coordinator/rpc/page.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

absl::Status BadToken(absl::string_view token) {
  return StatusWithReason(
      absl::StatusCode::kInvalidArgument, reason::kBadPageToken,
      absl::StrCat("page_token \"", EscapeForLog(token, 80),
                   "\" is of no page of this list: begin with an empty one, and pass what "
                   "next_page_token says"));
}

}  // namespace

std::string EncodePageToken(absl::string_view list, absl::string_view key) {
  return absl::WebSafeBase64Escape(absl::StrCat(list, ":", key));
}

absl::StatusOr<Page> DecodePage(absl::string_view list, int32_t page_size,
                                absl::string_view page_token) {
  if (page_size < 0 || page_size > kMaxPageSize) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
        absl::StrCat("page_size ", page_size, " is not in [0, ", kMaxPageSize, "]"));
  }
  Page page;
  if (page_size > 0) page.size = page_size;
  if (page_token.empty()) return page;
  std::string content;
  if (!absl::WebSafeBase64Unescape(page_token, &content)) return BadToken(page_token);
  absl::string_view key = content;
  if (!absl::ConsumePrefix(&key, absl::StrCat(list, ":")) || key.empty()) {
    return BadToken(page_token);
  }
  page.after = std::string(key);
  return page;
}

absl::StatusOr<NumberedPage> DecodeNumberedPage(absl::string_view list, int32_t page_size,
                                                absl::string_view page_token) {
  ASSIGN_OR_RETURN(const Page page, DecodePage(list, page_size, page_token));
  NumberedPage numbered{.size = page.size};
  if (!page.after.empty() && !absl::SimpleAtoi(page.after, &numbered.after)) {
    return BadToken(page_token);
  }
  return numbered;
}

}  // namespace dslide::coordinator
