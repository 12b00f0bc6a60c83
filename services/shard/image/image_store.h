// The images of a shard in a directory of its disk:
//
//   <label>/        complete, or absent: an image (shard_image.h) under its label (image_label.h)
//   .tmp-<label>/   being written, put together or removed; swept at the next start
//   .old-<label>/   being replaced; put back at the next start if nothing took its place
//
// Whatever comes under a label comes by one rename of what is complete and durable; whatever goes
// loses its name first. So half an image is never found.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/shard/image/file_list.h"

namespace dslide::shard {

// Thread safety: safe from any thread; changes of one label one after the other.
class ImageStore {
 public:
  // Of named images and parts of cluster checkpoints; the command log has a store of its own.
  static std::string DirectoryIn(const std::string& data_dir);

  // Makes the directory when it is missing, and removes or puts back what a crash has left
  // half-done. Errors: Unavailable with the system's reason, as of all functions here.
  static absl::StatusOr<std::unique_ptr<ImageStore>> Open(const std::string& directory);

  // Labels of the images that Open() would find in a directory that need not exist or be open:
  // also of one that was being replaced when the process ended. Sorted.
  static std::vector<std::string> LabelsIn(const std::string& directory);
  // Whether the name is of something half-done.
  static bool IsLeftover(const std::string& name);

  std::vector<std::string> Labels() const { return LabelsIn(directory_); }
  bool Has(const std::string& label) const;
  std::string PathOf(const std::string& label) const;

  // Has `write` make a durable image in a directory that does not exist, and puts it in the place
  // of an earlier one of that label. Errors: those of `write`, as it says them; the earlier one
  // stays.
  using Writer = absl::FunctionRef<absl::Status(const std::string& directory)>;
  absl::Status Publish(const std::string& label, Writer write);

  // Reads every file. Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss naming the file that is
  // missing, surplus or differs.
  absl::StatusOr<FileListSummary> Verify(const std::string& label) const;

  // Where an image is put together from files that were sent here.
  std::string ArrivalPathOf(const std::string& label) const;
  // Publishes that, once every file of it is what its list says and the list has that checksum.
  // Errors: DataLoss naming what differs: all that has arrived is gone then.
  absl::StatusOr<FileListSummary> Adopt(const std::string& label, uint32_t checksum);

  // Fine when there is none.
  absl::Status Remove(const std::string& label);

 private:
  explicit ImageStore(std::string directory);
  // What is complete in `fresh` gets the label.
  absl::Status PutInPlace(const std::string& fresh, const std::string& label);

  const std::string directory_;
};

}  // namespace dslide::shard
