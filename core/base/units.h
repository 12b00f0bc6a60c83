// Sizes and durations as people write them in flags and files.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

// "4096", "64KiB", "64MiB", "2GiB", "1TiB" (powers of 1024) or "64kB", "64MB", "2GB" (powers of
// 1000); a plain number is bytes. A fraction is allowed when the result is whole ("1.5GiB").
// Errors: InvalidArgument showing the text and the accepted forms.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

// The shortest exact form: 67108864 -> "64MiB", 1000 -> "1000". ParseByteSize inverts it.
std::string FormatByteSize(int64_t bytes);

// "250ms", "30s", "5m", "1h30m", "0"; a plain number other than 0 is refused, for its unit would be
// a guess. Errors: InvalidArgument showing the text and the accepted forms; negative or infinite.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace dslide
