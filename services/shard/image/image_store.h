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
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/shard/image/file_list.h"
#include "services/shard/image/labelled_images.h"

namespace dslide::shard {

// Writes in the background with a thread of its own. Thread safety: as LabelledImages.
class ImageStore final : public LabelledImages {
 public:
  // Of named images and parts of cluster checkpoints; the command log has a store of its own.
  static std::string DirectoryIn(const std::string& data_dir);

  // Of a directory that is to be read for now: nothing is changed before Sweep().
  explicit ImageStore(std::string directory);
  ~ImageStore() override { Wait(); }
  // One that is swept.
  static absl::StatusOr<std::unique_ptr<ImageStore>> Open(const std::string& directory);
  // Makes the directory when it is missing, and removes or puts back what a crash has left
  // half-done. Errors: Unavailable with the system's reason, as of all functions here.
  absl::Status Sweep();

  // Labels of the images that Sweep() would find in a directory that need not exist or be open:
  // also of one that was being replaced when the process ended. Sorted.
  static std::vector<std::string> LabelsIn(const std::string& directory);
  // Errors: why LabelsIn() would see nothing of a directory that is there.
  static absl::Status CheckListable(const std::string& directory);
  // Whether the name is of something half-done.
  static bool IsLeftover(const std::string& name);

  // --- labelled_images.h
  std::vector<std::string> Labels() const override { return LabelsIn(directory_); }
  std::string PathOf(const std::string& label) const override;
  absl::StatusOr<LoadedImage> Load(const std::string& label, ShardCore& core) const override;
  absl::StatusOr<ImageSize> SizeOf(const std::string& label) const override;
  absl::StatusOr<FileListSummary> Verify(const std::string& label) const override;
  absl::Status Write(const std::string& label, uint64_t lsn, const ShardCore& core) override;
  void Begin(ImageTask task) override;
  void Wait() override;
  absl::Status Remove(const std::string& label) override;
  std::string ArrivalPathOf(const std::string& label) const override;
  absl::StatusOr<FileListSummary> Adopt(const std::string& label, uint32_t checksum) override;

  bool Has(const std::string& label) const;

  // Has `write` make a durable image in a directory that does not exist, and puts it in the place
  // of an earlier one of that label. Errors: those of `write`, as it says them; the earlier one
  // stays.
  using Writer = absl::FunctionRef<absl::Status(const std::string& directory)>;
  absl::Status Publish(const std::string& label, Writer write);

 private:
  absl::StatusOr<ImageSize> WriteTo(const std::string& directory, const ImageTask& task) const;
  // What is complete in `fresh` gets the label.
  absl::Status PutInPlace(const std::string& fresh, const std::string& label);

  const std::string directory_;
  std::thread thread_;
};

}  // namespace dslide::shard
