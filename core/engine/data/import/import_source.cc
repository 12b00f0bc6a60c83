#include "core/engine/data/import/import_source.h"

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

bool HasColumns(const std::vector<std::string>& columns) {
  for (const std::string& column : columns) {
    if (column.empty()) return false;
  }
  return !columns.empty();
}

}  // namespace

absl::Status ImportSource::Validate() const {
  const bool is_byte = delimiter.size() == 1 && delimiter != "\"" && delimiter != "\n" &&
                       delimiter != "\r" && delimiter != std::string(1, '\0');
  if (!is_byte && delimiter != "tab") {
    return absl::InvalidArgumentError(
        absl::StrCat("delimiter \"", delimiter, "\": must be one byte such as ; or the word tab"));
  }
  if (!HasColumns(text_columns) || !HasColumns(label_columns)) {
    return absl::InvalidArgumentError("a column for texts and one for labels must be named");
  }
  if (label_prefix.empty()) {
    return absl::InvalidArgumentError("label prefix \"\": must have a character, as __label__");
  }
  return absl::OkStatus();
}

}  // namespace dslide
