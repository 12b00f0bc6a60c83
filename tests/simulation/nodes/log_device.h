// A shard's command log on a simulated disk: bytes as they were written, of which some prefix is
// synced. What may be lost, and what a crash leaves behind, is decided here; what it is worth, by
// the product's own reading of logs (services/shard/log/log_chain.h).

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/counter_rng.h"
#include "services/shard/log/log_chain.h"
#include "services/shard/log/shard_log.h"
#include "tests/simulation/bugs.h"
#include "tests/simulation/network.h"
#include "tests/simulation/trace.h"

namespace dslide::simulation {

// What outlives the process. Plain data.
struct LogDisk {
  std::string bytes;             // of the records from `mark.first` on
  size_t synced = 0;             // of them
  shard::HighWater mark;         // as a process sees it
  shard::HighWater mark_synced;  // as a loss of power leaves it at least
  bool full = false;
  bool sync_fails = false;
  size_t hole = std::string::npos;  // what lies behind it the system has dropped
};

// A process dies; with `power` what was not synced goes, too, or a part of it.
void CrashLog(Place place, bool power, CounterRng& rng, Trace& trace, LogDisk& disk);

struct LogRead {
  uint64_t last = 0;
  uint32_t last_checksum = 0;
  bool torn = false;
};

// Reads the log as the product does, and cuts off a torn end. `visit` is called for every record.
// Errors: DataLoss; those of `visit`.
absl::StatusOr<LogRead> ReadLog(Bug bug, LogDisk& disk,
                                absl::FunctionRef<absl::Status(const shard::LogRecord&)> visit);

// The log of one process. Not thread-safe.
class LogDevice final : public shard::ShardLog {
 public:
  struct Options {
    absl::Duration sync_interval = absl::ZeroDuration();
    absl::Duration sync_time = absl::Milliseconds(8);
    Bug bug = Bug::kNone;
    // A record was appended.
    std::function<void(const shard::LogRecord&)> on_append = nullptr;
  };

  LogDevice(NodePtr node, Options options, const LogRead& found, Trace& trace, LogDisk& disk);

  void Start(shard::CommandLogHooks hooks) override { hooks_ = std::move(hooks); }
  absl::StatusOr<uint64_t> Append(uint8_t kind,
                                  absl::Span<const absl::string_view> payload) override;
  absl::Status Sync() override;
  absl::Status Trim(uint64_t keep_from) override;
  uint64_t appended() const override { return appended_; }
  uint64_t durable() const override { return durable_; }
  int64_t appended_bytes() const override { return appended_bytes_; }

 private:
  void ScheduleSync();
  absl::Status SyncUpTo(uint64_t lsn, size_t bytes);

  const NodePtr node_;
  const Options options_;
  Trace& trace_;
  LogDisk& disk_;
  shard::CommandLogHooks hooks_;
  uint64_t appended_;
  uint64_t durable_;
  uint32_t last_checksum_;
  int64_t appended_bytes_ = 0;
  size_t good_bytes_;  // without what a full disk has cut off
  size_t trimmed_ = 0;
  bool sync_running_ = false;
  absl::Status failure_;
};

}  // namespace dslide::simulation
