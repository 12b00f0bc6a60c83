#include "services/coordinator/membership/names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"

namespace dslide::coordinator {

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  const bool valid =
      !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      });
  if (valid) return absl::OkStatus();
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kBadName,
                          absl::StrCat(field, " \"", EscapeForLog(name, 80),
                                       "\" must be 1 to 64 characters of a-z, 0-9 and -"));
}

}  // namespace dslide::coordinator
