#include "tests/simulation/nodes/memory_images.h"

#include <utility>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "services/shard/image/image_label.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kWritePause = absl::Milliseconds(2);
constexpr int64_t kRowsAtOnce = 20;

shard::ImageSize SizeOfImage(const MemoryImage& image) {
  return {.files = {.files = 1, .bytes = 1, .checksum = image.Checksum()}};
}

}  // namespace

std::shared_ptr<const MemoryImage> ImageDisk::Find(const std::string& label) const {
  const auto found = images.find(label);
  return found == images.end() ? nullptr : found->second;
}

std::vector<std::string> MemoryImages::Labels() const {
  std::vector<std::string> labels;
  for (const auto& [label, image] : disk_.images) labels.push_back(label);
  return labels;
}

absl::StatusOr<shard::LoadedImage> MemoryImages::Load(const std::string& label,
                                                      shard::ShardCore& core) const {
  ASSIGN_OR_RETURN(const shard::ImageSize size, SizeOf(label));
  const MemoryImage& image = *disk_.Find(label);
  RETURN_IF_ERROR(RestoreImage(image, core));
  return shard::LoadedImage{.lsn = image.lsn, .files = size.files};
}

absl::StatusOr<shard::ImageSize> MemoryImages::SizeOf(const std::string& label) const {
  if (const auto image = disk_.Find(label); image != nullptr) return SizeOfImage(*image);
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                          "there is no image " + label);
}

absl::StatusOr<shard::FileListSummary> MemoryImages::Verify(const std::string& label) const {
  ASSIGN_OR_RETURN(const shard::ImageSize size, SizeOf(label));
  return size.files;
}

absl::Status MemoryImages::Write(const std::string& label, uint64_t lsn,
                                 const shard::ShardCore& core) {
  Publish(label, ImageOf(lsn, core));
  return absl::OkStatus();
}

void MemoryImages::Begin(shard::ImageTask task) {
  writing_ = std::make_shared<Writing>(Writing{std::move(task), nullptr});
  WriteOn();
}

void MemoryImages::WriteOn() {
  Node::After(node_, kWritePause, [this, writing = writing_] {
    if (writing_ != writing) return;
    if (writing->writer == nullptr) writing->writer = WriterOf(writing->task);
    const bool fails = disk_.full || writing->writer->lost();
    if (!fails && !writing->writer->WriteSome(kRowsAtOnce)) return WriteOn();
    Wait();
  });
}

std::unique_ptr<ImageWriter> MemoryImages::WriterOf(const shard::ImageTask& task) const {
  const shard::ShardSnapshot& snapshot = *task.snapshot;
  std::shared_ptr<const MemoryImage> base;
  if (task.check_base != nullptr && task.check_base().ok()) {
    base = disk_.Find(shard::CheckpointLabel(snapshot.base().checkpoint_id));
  }
  if (base != nullptr && base->models.size() != snapshot.parts().models.size()) base = nullptr;
  return std::make_unique<ImageWriter>(snapshot, without_copies_, std::move(base));
}

// Whoever waits lets no time go by.
void MemoryImages::Wait() {
  const std::shared_ptr<Writing> writing = std::move(writing_);
  if (writing == nullptr || !node_->alive()) return;
  const absl::StatusOr<shard::ImageSize> size = End(*writing);
  if (!size.ok()) writing->task.snapshot->Abandon();
  writing->task.over(size);
}

absl::StatusOr<shard::ImageSize> MemoryImages::End(Writing& writing) {
  if (disk_.full) {
    trace_.Note(Fault::kDiskFull, {node_->place()});
    return absl::ResourceExhaustedError("the simulated disk is full");
  }
  if (writing.writer == nullptr) writing.writer = WriterOf(writing.task);
  writing.writer->WriteSome(INT64_MAX);
  if (writing.writer->lost()) return absl::CancelledError("the snapshot was abandoned");
  RETURN_IF_ERROR(writing.task.written());
  shard::ImageSize size = Publish(writing.task.label, writing.writer->Take());
  if (writing.writer->has_base()) {
    size.base_checkpoint_id = writing.task.snapshot->base().checkpoint_id;
    trace_.Note("built on", {node_->place(), static_cast<int64_t>(size.base_checkpoint_id)});
  }
  return size;
}

shard::ImageSize MemoryImages::Publish(const std::string& label, MemoryImage image) {
  const shard::ImageSize size = SizeOfImage(image);
  trace_.Note("image", {node_->place(), static_cast<int64_t>(image.lsn), size.files.checksum});
  disk_.images[label] = std::make_shared<const MemoryImage>(std::move(image));
  return size;
}

absl::Status MemoryImages::Remove(const std::string& label) {
  disk_.images.erase(label);
  return absl::OkStatus();
}

}  // namespace dslide::simulation
