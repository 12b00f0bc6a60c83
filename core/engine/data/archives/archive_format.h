// What a file is, told by its first bytes: a name says what somebody meant, they say what is there.

#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

enum class ArchiveFormat { kNone, kGzip, kXz, kZstd, kLz4, kBzip2, kForeign };

// So many first bytes say it.
inline constexpr size_t kArchiveHeadBytes = 512;

// Of a file that begins with `head`; kForeign: no text, and not read here.
ArchiveFormat ArchiveFormatOf(absl::string_view head);

// InvalidArgument naming the foreign format that `head` is of, and what makes a text of it.
absl::Status RefuseForeign(const std::string& path, absl::string_view head);

}  // namespace dslide
