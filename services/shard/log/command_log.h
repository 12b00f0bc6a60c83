// The log of everything that changes a shard: what was asked, in the order in which it was applied.
//
// Append() hands a record to the operating system and numbers it; a thread of the log's own syncs
// what has been appended, everything at once, and says how far it came. So a crash of the process
// loses nothing that was appended, and a loss of power nothing that was reported durable. Why it is
// cut in two: docs/adr/007-commands-are-logged-before-they-are-applied.md.
//
// Directory: "high-water" (high_water.h) and the database "records" (storage_log.h).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/common/files/disk_reserve.h"
#include "services/shard/log/high_water.h"
#include "services/shard/log/log_scan.h"
#include "services/shard/log/shard_log.h"
#include "services/shard/log/storage_log.h"

namespace dslide::shard {

struct CommandLogOptions {
  // From one sync to the next; zero: as soon as something was appended.
  absl::Duration sync_interval = absl::ZeroDuration();
  // The high-water mark itself is synced this often, with a record's sync. Bounds what could be
  // lost unnoticed when the disk is damaged after a loss of power.
  absl::Duration mark_interval = absl::Seconds(1);
  LogStorageOptions storage = {};
  // Of the log's volume; null: none. Released when a write finds no space; until it is held again,
  // nothing is appended that somebody waits for. Outlives the log.
  DiskReserve* reserve = nullptr;
  // For intervals and metrics; outlives the log.
  const Clock* clock = &SteadyClock();
};

// Thread safety: as ShardLog.
class CommandLog final : public ShardLog {
 public:
  // Makes an empty log in `directory`, which exists and is empty. Its names are durable when the
  // directory's own name is.
  // Errors: Unavailable, ResourceExhausted with the disk's reason.
  static absl::Status Create(const std::string& directory, const CommandLogOptions& options);

  // Opens a log that ScanLog() accepts, and cuts off a torn end. `visit` is called for each record
  // in order before.
  // Errors: DataLoss naming what is damaged or lost; Unavailable; those of `visit`.
  static absl::StatusOr<std::unique_ptr<CommandLog>> Open(
      const std::string& directory, const CommandLogOptions& options,
      absl::FunctionRef<absl::Status(const LogRecord&)> visit);
  static absl::StatusOr<std::unique_ptr<CommandLog>> Open(const std::string& directory,
                                                          const CommandLogOptions& options);

  // Stops, after a last sync.
  ~CommandLog() override;

  // What Open() found.
  const LogScan& found() const { return found_; }

  // --- shard_log.h. Sync() blocks.
  void Start(CommandLogHooks hooks) override;
  absl::StatusOr<uint64_t> Append(uint8_t kind,
                                  absl::Span<const absl::string_view> payload) override;
  absl::Status Sync() override;
  absl::Status Trim(uint64_t keep_from) override;
  uint64_t appended() const override;
  uint64_t durable() const override;
  int64_t appended_bytes() const override;

 private:
  CommandLog(const CommandLogOptions& options, std::unique_ptr<LogStorage> storage,
             std::unique_ptr<HighWaterFile> high_water, LogScan found);

  void SyncLoop();
  absl::Status SyncUpTo(uint64_t lsn);
  bool MustSync() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Fail(const absl::Status& status);

  const CommandLogOptions options_;
  const std::unique_ptr<LogStorage> storage_;
  const LogScan found_;
  CommandLogHooks hooks_;  // constant once started
  absl::Status ReopenAfterFullDisk();
  // Errors: ResourceExhausted while only what the reserve has left behind could be used.
  absl::Status CheckReserve(uint8_t kind) const;

  // Of the appending thread.
  bool disk_full_ = false;
  absl::Duration disk_tried_ = -absl::InfiniteDuration();  // to open the log again
  uint32_t last_checksum_;                                 // the appending thread's

  absl::Mutex mark_mu_;
  const std::unique_ptr<HighWaterFile> high_water_ ABSL_PT_GUARDED_BY(mark_mu_);
  absl::Duration mark_synced_ ABSL_GUARDED_BY(mark_mu_);

  mutable absl::Mutex mu_;
  uint64_t appended_ ABSL_GUARDED_BY(mu_);
  uint64_t durable_ ABSL_GUARDED_BY(mu_);
  int64_t appended_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t waiting_ ABSL_GUARDED_BY(mu_) = 0;  // in Sync()
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace dslide::shard
