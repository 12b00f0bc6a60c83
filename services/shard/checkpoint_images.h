// The images that cluster checkpoints have of this shard, by the checkpoint's number (its epoch).
//
//   <data dir>/cluster_checkpoints/epoch-<20 digits>/   an image (shard_image.h), and FILES
//   <data dir>/cluster_checkpoints/.tmp-epoch-.../      being written; swept at the next start
//
// FILES lists every other file with its size and CRC-32C, and ends with its own; the coordinator's
// manifest pins that last one, so that it pins every byte.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/shard/file_list.h"
#include "services/shard/shard_core.h"
#include "services/shard/shard_snapshot.h"

namespace dslide::shard {

struct CheckpointProgress {
  enum class State { kUnknown, kWriting, kPrepared, kFailed };
  State state = State::kUnknown;
  int64_t rows = 0;             // once prepared by this process
  FileListSummary files = {};   // once prepared
  absl::Duration elapsed = {};  // of writing, by this process
  absl::Status error = {};      // once failed
};

// Thread safety: safe from any thread, but Load().
class CheckpointImages {
 public:
  // Removes what an earlier process has left half-written. `clock` outlives it.
  // Errors: Unavailable with the system's reason.
  static absl::StatusOr<std::unique_ptr<CheckpointImages>> Open(const std::string& data_dir,
                                                                const Clock* clock);
  // Gives up what is being written.
  ~CheckpointImages();

  // Writes the snapshot on a thread of its own; an older image of that epoch is removed first.
  // `over` is called there at the end, whatever came of it, with the snapshot.
  // Errors: FailedPrecondition CHECKPOINT_RUNNING while another one is being written; Unavailable.
  absl::Status Begin(uint64_t epoch, std::shared_ptr<ShardSnapshot> snapshot,
                     std::function<void(std::shared_ptr<ShardSnapshot>)> over);

  bool busy() const {
    const absl::MutexLock lock(&mu_);
    return writing_;
  }

  // Prepared: complete and durable, read back once.
  CheckpointProgress Progress(uint64_t epoch) const;

  // Reads every file of a prepared image. Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the
  // file that is missing, surplus or differs.
  absl::StatusOr<FileListSummary> Verify(uint64_t epoch) const;

  // Loads a verified one into a core without models. Errors: those of LoadImage.
  absl::Status Load(uint64_t epoch, ShardCore& core) const;

  // Removes the prepared images of all other epochs; how many there were.
  // Errors: Unavailable; some may be gone.
  absl::StatusOr<int64_t> Retain(const std::vector<uint64_t>& epochs);

  // Prepared ones, ascending.
  std::vector<uint64_t> List() const;

  // Where the image of an epoch is, or would be.
  std::string PathOf(uint64_t epoch) const;
  // Where one is put together from files that were sent here; swept at the next start.
  std::string ArrivalPathOf(uint64_t epoch) const;
  // Puts what has arrived in the place of the image of that epoch, once every file of it is what
  // its list says and the list has that checksum. Errors: DataLoss naming what differs;
  // Unavailable.
  absl::StatusOr<FileListSummary> TakeArrival(uint64_t epoch, uint32_t checksum);

 private:
  CheckpointImages(std::string directory, const Clock* clock);

  absl::Status RemovePart(uint64_t epoch) const;
  void Write(uint64_t epoch, ShardSnapshot& snapshot);
  absl::Status WriteAndPublish(uint64_t epoch, ShardSnapshot& snapshot,
                               CheckpointProgress& progress);

  const std::string directory_;
  const Clock* const clock_;

  mutable absl::Mutex mu_;
  std::map<uint64_t, CheckpointProgress> progress_ ABSL_GUARDED_BY(mu_);  // of this process
  absl::Duration started_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  ShardSnapshot* snapshot_ ABSL_GUARDED_BY(mu_) = nullptr;  // being written
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::shard
