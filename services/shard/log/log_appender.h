// What the sequencer needs of a command log, wherever that keeps its records.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dslide::shard {

// Thread safety: Append() by one thread; the rest from any.
class LogAppender {
 public:
  virtual ~LogAppender() = default;

  // Returns the record's lsn. `payload` is not needed afterwards.
  // Errors: ResourceExhausted DISK_FULL, the record is not in the log, try again later; Unavailable
  // LOG_FAILED, for good; InvalidArgument OVER_LIMIT for more than kMaxLogPayload bytes.
  virtual absl::StatusOr<uint64_t> Append(uint8_t kind,
                                          absl::Span<const absl::string_view> payload) = 0;

  // Returns when everything appended is durable. Errors: Unavailable LOG_FAILED.
  virtual absl::Status Sync() = 0;

  // The last record's lsn; 0 when there was none.
  virtual uint64_t appended() const = 0;
  virtual uint64_t durable() const = 0;
};

}  // namespace dslide::shard
