#include "core/engine/data/parse_error.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace dslide {

std::string QuoteFound(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  if (text.size() <= kMaxShown) return absl::StrCat("\"", absl::CHexEscape(text), "\"");
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxShown)), "...\"");
}

absl::Status ParseError(const std::string& path, int64_t line, const LineError& error) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ":", error.column, ": found ",
                                                 error.found, ", expected ", error.expected));
}

}  // namespace dslide
