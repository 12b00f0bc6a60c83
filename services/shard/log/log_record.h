// One record of the command log as bytes: a frame that proves by itself what it is and where it
// belongs.
//
//   offset  bytes
//        0      4  magic "DSLR"
//        4      4  payload bytes
//        8      8  lsn, the record's number: 1, 2, 3, ... without gaps
//       16      4  checksum of the record before it; 0 for record 1
//       20      1  kind
//       21      1  format of frame and payload, 1
//       22      2  0
//       24      4  checksum: CRC-32C of the 24 bytes before it and of the payload
//       28         payload
//
// Numbers are little-endian. The checksums form a chain: a record that was left out, put elsewhere
// or taken from another log does not fit to its neighbours.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dslide::shard {

inline constexpr int64_t kLogFrameBytes = 28;
// Of one record; a scatter of the largest size fits.
inline constexpr int64_t kMaxLogPayload = int64_t{1} << 30;

struct LogRecord {
  uint64_t lsn = 0;
  uint32_t previous = 0;  // checksum of the record before it
  uint32_t checksum = 0;  // its own
  uint8_t kind = 0;
  absl::string_view payload;  // not owned
};

// The frame in front of a payload that lies in pieces, [kLogFrameBytes]. `checksum` gets the
// record's. The pieces have at most kMaxLogPayload bytes together.
std::string EncodeLogFrame(uint64_t lsn, uint32_t previous, uint8_t kind,
                           absl::Span<const absl::string_view> payload, uint32_t* checksum);

// The record that `bytes` begin with; it points into them. Bytes behind it do not matter.
// Errors: DataLoss saying what is wrong; FailedPrecondition for a record of another format.
absl::StatusOr<LogRecord> DecodeLogRecord(absl::string_view bytes);

// Where the next frame may begin: the position of the magic, or npos.
size_t FindLogFrame(absl::string_view bytes, size_t from);

}  // namespace dslide::shard
