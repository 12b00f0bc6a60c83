// Files of this shard's parts of cluster checkpoints on their way to another place, and back.

#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/shard/image/checkpoint_images.h"

namespace dslide::shard {

// Bytes of one piece: well below the smallest message that servers accept.
inline constexpr int64_t kCheckpointPieceBytes = int64_t{1} << 20;

// Thread safety: safe from any thread; calls block for the disk.
class CheckpointTransfer {
 public:
  // `images` outlives it.
  explicit CheckpointTransfer(CheckpointImages* images) : images_(images) {}

  // At most kCheckpointPieceBytes from `offset` on; "" at the end. path: of a file of the image, or
  // its list (kFileListName).
  // Errors: InvalidArgument for a path that leads elsewhere or an offset below 0; NotFound
  // UNKNOWN_CHECKPOINT, also for a file that is not there; Unavailable.
  absl::StatusOr<std::string> Read(uint64_t checkpoint_id, const std::string& path,
                                   int64_t offset) const;

  // Puts a piece of a file at `offset`, which is the size of what has come before, or less.
  // Errors: InvalidArgument as above, for a piece that is too long, or when what comes before it is
  // not there; Unavailable.
  absl::Status Write(uint64_t checkpoint_id, const std::string& path, int64_t offset,
                     absl::string_view piece);

  // The image that is there, when it is whole and has that list of files; else what has arrived.
  // Errors: NotFound UNKNOWN_CHECKPOINT when nothing has arrived; DataLoss; Unavailable.
  absl::StatusOr<FileListSummary> Adopt(uint64_t checkpoint_id, uint32_t checksum);

 private:
  CheckpointImages* const images_;
  // One change of what has arrived at a time: nothing is written into files once they are verified.
  absl::Mutex mu_;
};

}  // namespace dslide::shard
