// What records of a command log are worth, wherever they are kept: each must be whole, in its place
// and chained to the one before, and the end must be where the high-water mark says.

#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/shard/log/high_water.h"
#include "services/shard/log/log_record.h"

namespace dslide::shard {

struct LogExtent {
  uint64_t first = 0;  // 0: no records
  uint64_t last = 0;
  uint32_t last_checksum = 0;
  int64_t records = 0;
  int64_t bytes = 0;  // frames and payloads
};

// Takes the records of a log one after the other. Not thread-safe.
class LogChain {
 public:
  // bytes: what is stored in the place of record `lsn`; `visit` is called when that is in order.
  // Errors: DataLoss; FailedPrecondition for a record of another version; those of `visit`.
  absl::Status Add(uint64_t lsn, absl::string_view bytes,
                   absl::FunctionRef<absl::Status(const LogRecord&)> visit);

  const LogExtent& extent() const { return extent_; }

 private:
  LogExtent extent_;
};

// What the high-water mark says must be there. Errors: DataLoss naming the records that are
// missing.
absl::Status CheckLogBounds(const LogExtent& extent, const HighWater& mark);

// The highest lsn above `lsn` of a whole record anywhere in `bytes`, damage or not; 0: there is
// none.
uint64_t HighestRecordAbove(uint64_t lsn, absl::string_view bytes);

// A record behind the end was overtaken by damage that was taken for the end. beyond: the highest
// one that is there, 0 for none. Errors: DataLoss naming what would be lost.
absl::Status CheckNothingBeyond(const LogExtent& extent, uint64_t beyond);

}  // namespace dslide::shard
