// The versions of the formats of files. What another version of this program has written is not
// damaged, and is refused in other words than damage: with the versions and the remedy.
// docs/understand/formats.md lists all formats.

#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// The versions of a format that this program reads.
struct FormatRange {
  int64_t oldest = 1;
  int64_t newest = 1;
};

// Whether a version is among them. what: the file or the record that has it, with its name.
// Errors: FailedPrecondition naming it, its version, the versions that are read, and the remedy.
absl::Status CheckFormat(absl::string_view what, int64_t version, FormatRange reads);

// The version that a file's first word or line ends with: 3 of "DSLIMAG3" behind "DSLIMAG"; nothing
// when it does not begin so, or anything but a number follows.
std::optional<int64_t> VersionBehind(absl::string_view prefix, absl::string_view word);

// CheckFormat() of a sealed text (sealed_text.h) whose first line is `word` and its version. OK,
// too, for a text without its seal, or with another first line: what is wrong there is its reader's
// to say.
absl::Status CheckSealedFormat(absl::string_view what, absl::string_view text,
                               absl::string_view word, FormatRange reads);

}  // namespace dslide
