// A shard's state on its disk: images of the whole, and the log of what came after them.
//
//   <data dir>/command_log/
//     high-water, records/        the log (command_log.h)
//     images/                     states after one record each (image_store.h, image_label.h)
//
// The directory appears under its name when it is complete; from then on a part that is missing was
// lost, and nothing is made afresh in its place. Two images are kept, and the log since the older
// one: when the newer one turns out to be damaged, nothing is lost but time. After ForceImage()
// there is one, until the next. Images of lower roots than the newest do not count.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "services/shard/durability/durability.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/shard_snapshot.h"
#include "services/shard/log/command_log.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct DurableStateOptions {
  DurabilityOptions durability = {};
  LogStorageOptions storage = {};
  DiskReserve* reserve = nullptr;       // as CommandLogOptions has it
  const Clock* clock = &SteadyClock();  // for progress and intervals; outlives the state
};

// What it tells its owner. All may be null.
struct DurableStateHooks {
  CommandLogHooks log = {};
  // An image was written, which took so long.
  std::function<void(absl::Duration)> on_image = nullptr;
  // One that was written beside commands waits for MaybeTakeImage(). On a thread of its own; null:
  // the next command ends it.
  std::function<void()> on_written = nullptr;
};

// What a start did, for people.
struct Recovery {
  uint64_t image_lsn = 0;
  uint64_t last_lsn = 0;
  int64_t replayed = 0;  // records
  int64_t replayed_bytes = 0;
  int64_t damaged_images = 0;  // newer than the one that was used
  absl::Duration duration = absl::ZeroDuration();
};

// Thread safety: all of the thread that applies commands; log() as CommandLog says.
class DurableState {
 public:
  // Makes an empty core, with the limits that are wanted now.
  using MakeCore = std::function<std::unique_ptr<ShardCore>()>;

  static bool Exists(const std::string& data_dir);

  // Gives up an image that is being written.
  ~DurableState();

  // Where a data directory's state lies, and its images that count, newest first. From any thread.
  // Errors of Images(): DataLoss when there is none.
  static std::string DirectoryIn(const std::string& data_dir);
  static std::string ImagePathIn(const std::string& data_dir, const LogImage& image);
  static absl::StatusOr<std::vector<LogImage>> Images(const std::string& data_dir);

  // Restores what is in the directory: the newest image that is whole, and the log after it.
  // Commands may be appended after Begin().
  // Errors: DataLoss naming what is damaged or missing and what is lost; FailedPrecondition for
  // what another version has written; Unavailable. Nothing has changed then.
  static absl::StatusOr<std::unique_ptr<DurableState>> Restore(const std::string& data_dir,
                                                               const DurableStateOptions& options,
                                                               const MakeCore& make_core,
                                                               std::unique_ptr<ShardCore>* core);

  // Makes the directory, whose first image is `core`.
  // Errors: Unavailable with the disk's reason.
  static absl::StatusOr<std::unique_ptr<DurableState>> Create(const std::string& data_dir,
                                                              const DurableStateOptions& options,
                                                              const ShardCore& core);

  // Removes the directory: its name first, so that half of it is never found.
  static absl::Status Remove(const std::string& data_dir);

  // Starts the log, and puts the core under `limits`. Errors: those of CommandLog::Append().
  absl::Status Begin(DurableStateHooks hooks, const CoreLimits& limits, ShardCore& core);

  CommandLog& log() { return *log_; }
  const CommandLog& log() const { return *log_; }
  const Recovery& recovery() const { return recovery_; }

  // Begins an image, on a thread of its own, if the log has grown enough since the last one; or
  // ends one that is written. A failure is logged, and tried again when the log has grown as much
  // again.
  void MaybeTakeImage(ShardCore& core);

  // Waits for an image that was begun and makes it count. OK when there is none.
  absl::Status EndImage();

  // Settles the core's hash tables and writes an image of it; then the log is cut in front of the
  // older image that is kept. Without new records since the last image nothing happens.
  // Errors: those of the log and the disk; older images and the log then stay.
  absl::Status TakeImage(ShardCore& core);
  // Settles the core's hash tables (ShardCore::SettleTables) and logs that; returns the record's
  // lsn.
  absl::StatusOr<uint64_t> SettleTables(ShardCore& core);
  // For changes that the log does not know of. Older images do not count any more: no log leads
  // from them to this one. Errors: as TakeImage.
  absl::Status ForceImage(ShardCore& core);

 private:
  DurableState(DurableStateOptions options, std::unique_ptr<CommandLog> log,
               std::unique_ptr<ImageStore> store, std::vector<LogImage> images);

  // An image that is being written while commands go on.
  struct Writing {
    LogImage image;
    absl::Duration start;
    std::unique_ptr<ShardSnapshot> snapshot;
    std::atomic<bool> over = false;
    absl::Status result;  // once over
    std::thread thread;
  };
  absl::Status BeginImage(ShardCore& core);
  // An image of now; if it is a root, no older one counts.
  absl::Status WriteImageNow(ShardCore& core, bool is_root);
  // An image was published: what is older than needed goes.
  absl::Status Retain(const LogImage& newest);

  const DurableStateOptions options_;
  const std::unique_ptr<CommandLog> log_;
  const std::unique_ptr<ImageStore> store_;
  DurableStateHooks hooks_;  // constant once begun; the log has its own
  Recovery recovery_;
  std::vector<LogImage> images_;  // newest first
  int64_t bytes_at_image_ = 0;    // the log's, when the last image was tried
  std::unique_ptr<Writing> writing_;
};

// The command of one record applied, or what else it stands for. Errors: DataLoss;
// FailedPrecondition for a kind of record that only later versions know.
absl::Status ReplayRecord(const LogRecord& record, ShardCore& core);

}  // namespace dslide::shard
