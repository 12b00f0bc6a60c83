// The images that cluster checkpoints have of this shard, by the checkpoint's number (its
// checkpoint_id).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/shard/image/file_list.h"
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
  // Gives up what is being written.
  virtual ~CheckpointImages() = default;

  // Writes the snapshot in the background, on the image of its base if it has one that is fit for
  // it; an older image of that checkpoint_id is removed first. `over` is
  // called there at the end, whatever came of it, with the snapshot.
  // Errors: FailedPrecondition CHECKPOINT_RUNNING while another one is being written; Unavailable.
  virtual absl::Status Begin(uint64_t checkpoint_id, std::shared_ptr<ShardSnapshot> snapshot,
                             std::function<void(std::shared_ptr<ShardSnapshot>)> over) = 0;

  virtual bool busy() const = 0;

  // Gives up the image of that number if it is being written: it will have failed. Does not wait.
  virtual void Abandon(uint64_t checkpoint_id) = 0;

  // Prepared: complete and durable, read back once.
  virtual CheckpointProgress Progress(uint64_t checkpoint_id) const = 0;

  // Reads every file of a prepared image. Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the
  // file that is missing, surplus or differs.
  virtual absl::StatusOr<FileListSummary> Verify(uint64_t checkpoint_id) = 0;

  // Whether Verify() has found it whole a short time ago, with a list of that checksum.
  virtual bool VerifiedLately(uint64_t checkpoint_id, uint32_t checksum) const = 0;

  // Loads a verified one into a core without models; checks while it reads. Errors: those of
  // LoadImage.
  virtual absl::Status Load(uint64_t checkpoint_id, ShardCore& core) const = 0;

  // Removes the prepared images of all other checkpoint_ids; how many there were.
  // Errors: Unavailable; some may be gone.
  virtual absl::StatusOr<int64_t> Retain(const std::vector<uint64_t>& checkpoint_ids) = 0;

  // Prepared ones, ascending.
  virtual std::vector<uint64_t> List() const = 0;
};

}  // namespace dslide::shard
