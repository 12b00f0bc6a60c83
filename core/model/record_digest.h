// What one row's record adds to the digest of a table.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// A record is whole lines: its size is a multiple of this.
inline constexpr int64_t kRecordLineBytes = 32;

// A 64-bit hash of (global row id, record). record: a multiple of kRecordLineBytes.
uint64_t RecordDigest(RowId row, absl::Span<const char> record);

}  // namespace dslide
