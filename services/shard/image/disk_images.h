// The images that cluster checkpoints have of this shard, in an ImageStore. The coordinator's
// manifest pins the checksum of each one's list of files, and so every byte.

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
#include "services/shard/image/image_store.h"

namespace dslide::shard {

// Written by a thread of its own. Thread safety: as CheckpointImages.
class DiskImages final : public CheckpointImages {
 public:
  // Both outlive it.
  DiskImages(ImageStore* store, const Clock* clock) : store_(store), clock_(clock) {}
  ~DiskImages() override;

  absl::Status Begin(uint64_t checkpoint_id, std::shared_ptr<ShardSnapshot> snapshot,
                     std::function<void(std::shared_ptr<ShardSnapshot>)> over) override;
  bool busy() const override {
    const absl::MutexLock lock(&mu_);
    return writing_;
  }
  void Abandon(uint64_t checkpoint_id) override;
  CheckpointProgress Progress(uint64_t checkpoint_id) const override;
  absl::StatusOr<FileListSummary> Verify(uint64_t checkpoint_id) override;
  bool VerifiedLately(uint64_t checkpoint_id, uint32_t checksum) const override;
  absl::Status Load(uint64_t checkpoint_id, ShardCore& core) const override;
  absl::StatusOr<int64_t> Retain(const std::vector<uint64_t>& checkpoint_ids) override;
  std::vector<uint64_t> List() const override;

  // Where the image is, or would be; and where one is put together from files that were sent here.
  std::string PathOf(uint64_t checkpoint_id) const;
  std::string ArrivalPathOf(uint64_t checkpoint_id) const;
  // Puts what has arrived in the place of the image. Errors: those of ImageStore::Adopt.
  absl::StatusOr<FileListSummary> Adopt(uint64_t checkpoint_id, uint32_t checksum);

 private:
  void Write(uint64_t checkpoint_id, ShardSnapshot& snapshot);
  // An increment if the snapshot has a base that is fit for it.
  absl::Status WriteImage(ShardSnapshot& snapshot, const std::string& directory,
                          CheckpointProgress& progress);
  // Errors: why all rows have to be written.
  absl::StatusOr<LinkedBase> LinkBaseOf(const ShardSnapshot& snapshot,
                                        const std::string& directory) const;

  ImageStore* const store_;
  const Clock* const clock_;

  mutable absl::Mutex mu_;
  std::map<uint64_t, CheckpointProgress> progress_ ABSL_GUARDED_BY(mu_);  // of this process
  struct Verified {
    uint32_t checksum = 0;
    absl::Duration at;
  };
  std::map<uint64_t, Verified> verified_ ABSL_GUARDED_BY(mu_);
  absl::Duration started_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  ShardSnapshot* snapshot_ ABSL_GUARDED_BY(mu_) = nullptr;  // being written
  uint64_t snapshot_id_ ABSL_GUARDED_BY(mu_) = 0;           // the checkpoint that it is for
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::shard
