#include "core/engine/data/import/line_records.h"

#include "absl/strings/ascii.h"
#include "core/base/status_macros.h"
#include "core/engine/data/parse_error.h"

namespace dslide {

absl::StatusOr<bool> LineRecords::Next(ImportRecord* record) {
  *record = {};
  absl::string_view line;
  while (lines_.Next(&line)) {
    bytes_read_ = static_cast<int64_t>(size_) - (end_ - (line.data() + line.size()));
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    RETURN_IF_ERROR(CheckCharacters(path_, lines_.line_number(), line));
    RETURN_IF_ERROR(Read(line, record));
    return true;
  }
  bytes_read_ = static_cast<int64_t>(size_);
  RETURN_IF_ERROR(CheckEnd());
  return false;
}

absl::Status LineRecords::ErrorAt(absl::string_view line, absl::string_view at,
                                  const std::string& found, const std::string& expected) const {
  return ParseError(path_, lines_.line_number(), {at.data() - line.data() + 1, found, expected});
}

}  // namespace dslide
