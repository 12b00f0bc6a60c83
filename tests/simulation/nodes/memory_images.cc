#include "tests/simulation/nodes/memory_images.h"

#include <utility>

#include "core/base/status_macros.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kImagePause = absl::Milliseconds(3);
constexpr int64_t kImageRows = 16;

}  // namespace

std::vector<std::string> MemoryImages::Labels() const {
  std::vector<std::string> labels;
  for (const auto& [label, image] : disk_) labels.push_back(label);
  return labels;
}

absl::StatusOr<uint64_t> MemoryImages::Load(const std::string& label,
                                            shard::ShardCore& core) const {
  const MemoryImage& image = disk_.at(label);
  RETURN_IF_ERROR(RestoreImage(image, core));
  return image.lsn;
}

absl::Status MemoryImages::Write(const std::string& label, uint64_t lsn,
                                 const shard::ShardCore& core) {
  Publish(label, ImageOf(lsn, core));
  return absl::OkStatus();
}

void MemoryImages::Begin(shard::ImageTask task) {
  ImageWriter writer(*task.snapshot, /*without_copies=*/false);
  writing_ = std::make_shared<Writing>(Writing{std::move(task), std::move(writer)});
  WriteOn();
}

void MemoryImages::WriteOn() {
  Node::After(node_, kImagePause, [this, writing = writing_] {
    if (writing_ != writing) return;
    if (!writing_->writer.WriteSome(kImageRows)) return WriteOn();
    Wait();
  });
}

// Whoever waits lets no time go by.
void MemoryImages::Wait() {
  const std::shared_ptr<Writing> writing = std::move(writing_);
  if (writing == nullptr || !node_->alive()) return;
  writing->writer.WriteSome(INT64_MAX);
  absl::Status written = writing->writer.lost() ? absl::CancelledError("the snapshot was abandoned")
                                                : writing->task.written();
  if (written.ok()) Publish(writing->task.label, writing->writer.Take());
  writing->task.over(std::move(written));
}

void MemoryImages::Publish(const std::string& label, MemoryImage image) {
  trace_.Note("image", {node_->place(), static_cast<int64_t>(image.lsn), image.Checksum()});
  disk_[label] = std::move(image);
}

absl::Status MemoryImages::Remove(const std::string& label) {
  disk_.erase(label);
  return absl::OkStatus();
}

}  // namespace dslide::simulation
