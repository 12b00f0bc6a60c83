// Where a shard keeps images of its state under labels (image_label.h): a directory of its disk,
// or a simulated one. What is written when, and which of it counts, its users decide.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/shard/image/file_list.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/image/shard_snapshot.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

// An image that is written while commands go on.
struct ImageTask {
  std::string label;
  ShardSnapshot* snapshot = nullptr;  // outlives the writing
  // Called first: whether its rows may be shared with the image of the snapshot's base. An error
  // says why not. Null: they may not.
  std::function<absl::Status()> check_base = nullptr;
  // Called when all is written, before the image gets its label; an error becomes the image's.
  std::function<absl::Status()> written = nullptr;
  // Called at the end, whatever came of it. All on a thread of the images.
  std::function<void(const absl::StatusOr<ImageSize>&)> over = nullptr;
};

// Thread safety: safe from any thread; changes of one label, and Begin() and Wait(), one after the
// other.
class LabelledImages {
 public:
  virtual ~LabelledImages() = default;

  // Sorted.
  virtual std::vector<std::string> Labels() const = 0;
  // For people.
  virtual std::string PathOf(const std::string& label) const = 0;

  // Restores one into a fresh core, reading each file once. Errors: those of LoadImage().
  virtual absl::StatusOr<LoadedImage> Load(const std::string& label, ShardCore& core) const = 0;

  // What its list of files and its head say; of rows and written bytes nothing. Errors: as Load().
  virtual absl::StatusOr<ImageSize> SizeOf(const std::string& label) const = 0;
  // Reads every file. Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the file that is
  // missing, surplus or differs.
  virtual absl::StatusOr<FileListSummary> Verify(const std::string& label) const = 0;

  // Writes the state after record `lsn`, of a core that nobody changes meanwhile, in the place of
  // an earlier image of that label. Errors: Unavailable with the disk's reason, as of the others;
  // the earlier one stays.
  virtual absl::Status Write(const std::string& label, uint64_t lsn, const ShardCore& core) = 0;
  // The same in the background; one at a time. After an error the snapshot is abandoned.
  virtual void Begin(ImageTask task) = 0;
  // Returns when what was begun is over.
  virtual void Wait() = 0;

  // Fine when there is none.
  virtual absl::Status Remove(const std::string& label) = 0;

  // Where an image is put together from files that were sent here.
  virtual std::string ArrivalPathOf(const std::string& label) const = 0;
  // Labels that, once every file of it is what its list says and the list has that checksum.
  // Errors: DataLoss naming what differs: all that has arrived is gone then.
  virtual absl::StatusOr<FileListSummary> Adopt(const std::string& label, uint32_t checksum) = 0;
};

}  // namespace dslide::shard
