#include "services/common/files/sealed_number.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/common/files/durable_files.h"

namespace dslide {

std::string SealNumber(absl::string_view word, uint64_t number) {
  return SealText(absl::StrCat(word, " 1\n", number, "\n"));
}

absl::StatusOr<std::optional<uint64_t>> ReadSealedNumber(const std::string& path,
                                                         absl::string_view word) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedFormat(path, *text, absl::StrCat(word, " "), {}));
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  uint64_t number = 0;
  // Whatever was changed encodes differently.
  if (lines.size() < 2 || !absl::SimpleAtoi(lines[1], &number) ||
      SealNumber(word, number) != *text) {
    return absl::DataLossError(absl::StrCat(path, " does not have its checksum"));
  }
  return number;
}

}  // namespace dslide
