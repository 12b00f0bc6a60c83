// The images that cluster checkpoints have of this shard, by the checkpoint's number (its
// checkpoint_id). The coordinator's manifest pins the checksum of each one's list of files, and so
// every byte.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/shard/image/file_list.h"
#include "services/shard/image/labelled_images.h"
#include "services/shard/image/shard_snapshot.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct CheckpointProgress {
  enum class State { kUnknown, kWriting, kPrepared, kFailed };
  State state = State::kUnknown;
  int64_t rows = 0;            // once prepared by this process
  FileListSummary files = {};  // once prepared
  // Once prepared: the checkpoint on whose part it was built by links, 0: none; and the bytes that
  // were written, without what was linked.
  uint64_t base_checkpoint_id = 0;
  int64_t written_bytes = 0;
  absl::Duration elapsed = {};  // of writing, by this process
  absl::Status error = {};      // once failed
};

// Thread safety: safe from any thread, but Load().
class CheckpointImages {
 public:
  // Both outlive it.
  CheckpointImages(LabelledImages* store, const Clock* clock) : store_(store), clock_(clock) {}
  // Gives up what is being written.
  ~CheckpointImages();

  // Writes the snapshot in the background, on the image of its base if it has one that is fit for
  // it; an older image of that checkpoint_id is removed first. `over` is called there at the end,
  // whatever came of it, with the snapshot.
  // Errors: FailedPrecondition CHECKPOINT_RUNNING while another one is being written; Unavailable.
  absl::Status Begin(uint64_t checkpoint_id, std::shared_ptr<ShardSnapshot> snapshot,
                     std::function<void(std::shared_ptr<ShardSnapshot>)> over);

  bool busy() const {
    const absl::MutexLock lock(&mu_);
    return writing_;
  }

  // Gives up the image of that number if it is being written: it will have failed. Does not wait.
  void Abandon(uint64_t checkpoint_id);

  // Prepared: complete and durable, read back once.
  CheckpointProgress Progress(uint64_t checkpoint_id) const;

  // Reads every file of a prepared image. Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the
  // file that is missing, surplus or differs.
  absl::StatusOr<FileListSummary> Verify(uint64_t checkpoint_id);

  // Whether Verify() or Load() has found it whole a short time ago, with a list of that checksum.
  bool VerifiedLately(uint64_t checkpoint_id, uint32_t checksum) const;

  // Loads one into a core without models; checks while it reads. Errors: those of LoadImage.
  absl::StatusOr<FileListSummary> Load(uint64_t checkpoint_id, ShardCore& core);

  // Removes the prepared images of all other checkpoint_ids; how many there were.
  // Errors: Unavailable; some may be gone.
  absl::StatusOr<int64_t> Retain(const std::vector<uint64_t>& checkpoint_ids);

  // Prepared ones, ascending.
  std::vector<uint64_t> List() const;

  // Where the image is, or would be; and where one is put together from files that were sent here.
  std::string PathOf(uint64_t checkpoint_id) const;
  std::string ArrivalPathOf(uint64_t checkpoint_id) const;
  // Puts what has arrived in the place of the image. Errors: those of LabelledImages::Adopt.
  absl::StatusOr<FileListSummary> Adopt(uint64_t checkpoint_id, uint32_t checksum);

 private:
  // Remembers what was found of all files.
  absl::StatusOr<FileListSummary> Verified(uint64_t checkpoint_id,
                                           absl::StatusOr<FileListSummary> files);
  // Errors: why all rows have to be written.
  absl::Status CheckBase(const ShardSnapshot& snapshot) const;
  void End(uint64_t checkpoint_id, const absl::StatusOr<ImageSize>& written);

  LabelledImages* const store_;
  const Clock* const clock_;

  mutable absl::Mutex mu_;
  std::map<uint64_t, CheckpointProgress> progress_ ABSL_GUARDED_BY(mu_);  // of this process
  struct Verification {
    uint32_t checksum = 0;
    absl::Duration at;
  };
  std::map<uint64_t, Verification> verified_ ABSL_GUARDED_BY(mu_);
  absl::Duration started_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  ShardSnapshot* snapshot_ ABSL_GUARDED_BY(mu_) = nullptr;  // being written
  uint64_t snapshot_id_ ABSL_GUARDED_BY(mu_) = 0;           // the checkpoint that it is for
};

}  // namespace dslide::shard
