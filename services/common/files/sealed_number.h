// A file that says one number: a line with a word and its version, the number, and a seal
// (core/system/sealed_text.h).

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// word: "dslide restoring".
std::string SealNumber(absl::string_view word, uint64_t number);

// Nothing when there is no such file. Errors: DataLoss naming the file when it is not what was
// written; FailedPrecondition when another version has written it; Unavailable.
absl::StatusOr<std::optional<uint64_t>> ReadSealedNumber(const std::string& path,
                                                         absl::string_view word);

}  // namespace dslide
