// A shard's command log, wherever it keeps its records.

#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace dslide::shard {

// What a log tells its owner, on its own thread. Must not block.
struct CommandLogHooks {
  // All records up to this one are durable.
  std::function<void(uint64_t durable)> on_durable = nullptr;
  // A sync took so long.
  std::function<void(absl::Duration)> on_sync = nullptr;
  // The log has failed for good; what was not reported durable may be lost.
  std::function<void(const absl::Status&)> on_failed = nullptr;
};

// Thread safety: Append() and Trim() by one thread; the rest from any.
class ShardLog {
 public:
  virtual ~ShardLog() = default;

  // Begins to sync. Once, before the first Append().
  virtual void Start(CommandLogHooks hooks) = 0;

  // Returns the record's lsn. `payload` is not needed afterwards.
  // Errors: ResourceExhausted DISK_FULL, the record is not in the log, try again later; Unavailable
  // LOG_FAILED, for good; InvalidArgument OVER_LIMIT for more than kMaxLogPayload bytes.
  virtual absl::StatusOr<uint64_t> Append(uint8_t kind,
                                          absl::Span<const absl::string_view> payload) = 0;

  // Returns when everything appended is durable. Errors: Unavailable LOG_FAILED.
  virtual absl::Status Sync() = 0;

  // Records below `keep_from` may go; the last record always stays.
  // Errors: Unavailable: they may still be there.
  virtual absl::Status Trim(uint64_t keep_from) = 0;

  // The last record's lsn; 0 when there was none.
  virtual uint64_t appended() const = 0;
  virtual uint64_t durable() const = 0;
  // By this object.
  virtual int64_t appended_bytes() const = 0;
};

}  // namespace dslide::shard
