// The images of cluster checkpoints on a disk:
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
#include "services/shard/image/checkpoint_images.h"

namespace dslide::shard {

// Written by a thread of its own. Thread safety: as CheckpointImages.
class DiskImages final : public CheckpointImages {
 public:
  // Removes what an earlier process has left half-written. `clock` outlives it.
  // Errors: Unavailable with the system's reason.
  static absl::StatusOr<std::unique_ptr<DiskImages>> Open(const std::string& data_dir,
                                                          const Clock* clock);
  ~DiskImages() override;

  absl::Status Begin(uint64_t checkpoint_id, std::shared_ptr<ShardSnapshot> snapshot,
                     std::function<void(std::shared_ptr<ShardSnapshot>)> over) override;
  bool busy() const override {
    const absl::MutexLock lock(&mu_);
    return writing_;
  }
  void Abandon(uint64_t checkpoint_id) override;
  CheckpointProgress Progress(uint64_t checkpoint_id) const override;
  absl::StatusOr<FileListSummary> Verify(uint64_t checkpoint_id) const override;
  absl::Status Load(uint64_t checkpoint_id, ShardCore& core) const override;
  absl::StatusOr<int64_t> Retain(const std::vector<uint64_t>& checkpoint_ids) override;
  std::vector<uint64_t> List() const override;

  // Where the image of an checkpoint_id is, or would be.
  std::string PathOf(uint64_t checkpoint_id) const;
  // Where one is put together from files that were sent here; swept at the next start.
  std::string ArrivalPathOf(uint64_t checkpoint_id) const;
  // Puts what has arrived in the place of the image of that checkpoint_id, once every file of it is
  // what its list says and the list has that checksum. Errors: DataLoss naming what differs;
  // Unavailable.
  absl::StatusOr<FileListSummary> TakeArrival(uint64_t checkpoint_id, uint32_t checksum);

 private:
  DiskImages(std::string directory, const Clock* clock);

  absl::Status RemovePart(uint64_t checkpoint_id) const;
  void Write(uint64_t checkpoint_id, ShardSnapshot& snapshot);
  absl::Status WriteAndPublish(uint64_t checkpoint_id, ShardSnapshot& snapshot,
                               CheckpointProgress& progress);
  // Writes and lists the image: an increment if the snapshot has a base that is fit for it.
  absl::Status WriteImage(ShardSnapshot& snapshot, const std::string& directory,
                          CheckpointProgress& progress);
  // Errors: why all rows have to be written.
  absl::StatusOr<LinkedBase> LinkBaseOf(const ShardSnapshot& snapshot,
                                        const std::string& directory) const;

  const std::string directory_;
  const Clock* const clock_;

  mutable absl::Mutex mu_;
  std::map<uint64_t, CheckpointProgress> progress_ ABSL_GUARDED_BY(mu_);  // of this process
  absl::Duration started_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  ShardSnapshot* snapshot_ ABSL_GUARDED_BY(mu_) = nullptr;  // being written
  uint64_t snapshot_id_ ABSL_GUARDED_BY(mu_) = 0;           // the checkpoint that it is for
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::shard
