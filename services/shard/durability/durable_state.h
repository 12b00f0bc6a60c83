// A shard's durable state: images of the whole, and the log of what came after them.
//
// Two images are kept, and the log since the older one: when the newer one turns out to be damaged,
// nothing is lost but time. After ForceImage() there is one, until the next. Images of lower roots
// than the newest do not count (image_label.h).
//
// Where they lie is another matter: log_directory.h.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/shard/durability/durability.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/labelled_images.h"
#include "services/shard/image/shard_snapshot.h"
#include "services/shard/log/log_record.h"
#include "services/shard/log/shard_log.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct DurableStateParts {
  std::unique_ptr<LabelledImages> images;
  // Opens the log and calls `visit` for each record in order. Errors: DataLoss naming what is
  // damaged or lost; Unavailable; those of `visit`.
  using Visit = absl::FunctionRef<absl::Status(const LogRecord&)>;
  std::function<absl::StatusOr<std::unique_ptr<ShardLog>>(Visit visit)> open_log;
  DurabilityOptions durability = {};
  const Clock* clock = &SteadyClock();  // outlives the state
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

// Thread safety: all of the thread that applies commands; log() as ShardLog says.
class DurableState {
 public:
  // Makes an empty core, with the limits that are wanted now.
  using MakeCore = std::function<std::unique_ptr<ShardCore>()>;

  // Of an image LogLabel({}), and an empty log. Errors: those of open_log.
  static absl::StatusOr<std::unique_ptr<DurableState>> Create(DurableStateParts parts);

  // Restores what there is: the newest image that is whole, and the log after it. Commands may be
  // appended after Begin().
  // Errors: DataLoss naming what is damaged or missing and what is lost; FailedPrecondition for
  // what another version has written; Unavailable. No image has changed then.
  static absl::StatusOr<std::unique_ptr<DurableState>> Restore(DurableStateParts parts,
                                                               const MakeCore& make_core,
                                                               std::unique_ptr<ShardCore>* core);

  // Gives up an image that is being written.
  ~DurableState();

  // Starts the log, and puts the core under `limits`. Errors: those of ShardLog::Append().
  absl::Status Begin(DurableStateHooks hooks, const CoreLimits& limits, ShardCore& core);

  ShardLog& log() { return *log_; }
  const ShardLog& log() const { return *log_; }
  const Recovery& recovery() const { return recovery_; }

  // Begins an image, in the background, if the log has grown enough since the last one; or ends one
  // that is written. A failure is logged, and tried again when the log has grown as much again.
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
  DurableState(DurableStateParts parts, std::unique_ptr<ShardLog> log, std::vector<LogImage> images,
               const Recovery& recovery);

  // An image that is being written while commands go on.
  struct Writing {
    LogImage image;
    absl::Duration start;
    std::unique_ptr<ShardSnapshot> snapshot;
    std::atomic<bool> over = false;
    absl::Status result;  // once over
  };
  absl::Status BeginImage(ShardCore& core);
  // An image of now; if it is a root, no older one counts.
  absl::Status WriteImageNow(ShardCore& core, bool is_root);
  // An image was published: what is older than needed goes.
  absl::Status Retain(const LogImage& newest);

  const DurabilityOptions options_;
  const Clock& clock_;
  const std::unique_ptr<ShardLog> log_;
  const std::unique_ptr<LabelledImages> store_;
  const Recovery recovery_;
  DurableStateHooks hooks_;       // constant once begun; the log has its own
  std::vector<LogImage> images_;  // newest first
  int64_t bytes_at_image_;        // the log's, when the last image was tried
  std::unique_ptr<Writing> writing_;
};

// The command of one record applied, or what else it stands for. Errors: DataLoss;
// FailedPrecondition for a kind of record that only later versions know.
absl::Status ReplayRecord(const LogRecord& record, ShardCore& core);

}  // namespace dslide::shard
