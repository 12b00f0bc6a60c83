// What one row's record adds to the digest of a table.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// Records of floats are whole lines: their size is a multiple of this.
inline constexpr int64_t kRecordLineBytes = 32;

// A 64-bit hash of (global row id, record). A record that does not end with a whole line is hashed
// with zeros behind it, and with its size.
uint64_t RecordDigest(RowId row, absl::Span<const char> record);

}  // namespace dslide
