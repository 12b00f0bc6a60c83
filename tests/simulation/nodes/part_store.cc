#include "tests/simulation/nodes/part_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kWritePause = absl::Milliseconds(2);
constexpr int64_t kRowsAtOnce = 24;

shard::CheckpointProgress Prepared(const MemoryImage& image) {
  shard::CheckpointProgress progress;
  progress.state = shard::CheckpointProgress::State::kPrepared;
  progress.files = {.files = 1, .bytes = 1, .checksum = image.Checksum()};
  return progress;
}

}  // namespace

absl::Status PartStore::Begin(uint64_t checkpoint_id,
                              std::shared_ptr<shard::ShardSnapshot> snapshot,
                              std::function<void(std::shared_ptr<shard::ShardSnapshot>)> over) {
  if (writing_) {
    return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kCheckpointRunning,
                            "this shard still writes another part");
  }
  disk_.parts.erase(checkpoint_id);
  writing_ = true;
  abandoned_ = 0;
  progress_[checkpoint_id] = {.state = shard::CheckpointProgress::State::kWriting};
  auto writer =
      std::make_unique<ImageWriter>(*snapshot, bug_ == Bug::kPartWithoutCopies, BaseOf(*snapshot));
  Write(std::make_shared<Writing>(
      Writing{checkpoint_id, std::move(snapshot), std::move(writer), std::move(over)}));
  return absl::OkStatus();
}

std::shared_ptr<const MemoryImage> PartStore::BaseOf(const shard::ShardSnapshot& snapshot) const {
  const auto written = progress_.find(snapshot.base().checkpoint_id);
  const auto part = disk_.parts.find(snapshot.base().checkpoint_id);
  const bool fit = part != disk_.parts.end() && written != progress_.end() &&
                   written->second.state == shard::CheckpointProgress::State::kPrepared &&
                   written->second.files.checksum == snapshot.base().files_checksum &&
                   part->second->models.size() == snapshot.parts().models.size();
  if (snapshot.base().checkpoint_id == 0 || !fit) return nullptr;
  return part->second;
}

void PartStore::Write(const std::shared_ptr<Writing>& writing) {
  Node::After(node_, kWritePause, [this, writing] {
    const bool abandoned = writing->checkpoint_id == abandoned_;
    if (!disk_.full && !abandoned && !writing->writer->WriteSome(kRowsAtOnce)) {
      return Write(writing);
    }
    shard::CheckpointProgress& progress = progress_[writing->checkpoint_id];
    if (abandoned) {
      writing->snapshot->Abandon();
      progress.state = shard::CheckpointProgress::State::kFailed;
      progress.error = absl::CancelledError("the coordinator has given it up");
    } else if (disk_.full) {
      trace_.Note(Fault::kDiskFull, {node_->place()});
      writing->snapshot->Abandon();
      progress.state = shard::CheckpointProgress::State::kFailed;
      progress.error = absl::ResourceExhaustedError("the simulated disk is full");
    } else {
      const uint64_t base =
          writing->writer->has_base() ? writing->snapshot->base().checkpoint_id : 0;
      const auto image = std::make_shared<const MemoryImage>(writing->writer->Take());
      disk_.parts[writing->checkpoint_id] = image;
      progress = Prepared(*image);
      progress.base_checkpoint_id = base;
      if (base != 0) trace_.Note("part built on", {node_->place(), static_cast<int64_t>(base)});
      trace_.Note("part written", {node_->place(), static_cast<int64_t>(writing->checkpoint_id),
                                   progress.files.checksum});
    }
    writing->over(std::move(writing->snapshot));
    writing_ = false;
  });
}

shard::CheckpointProgress PartStore::Progress(uint64_t checkpoint_id) const {
  if (const auto found = progress_.find(checkpoint_id); found != progress_.end())
    return found->second;
  const auto part = disk_.parts.find(checkpoint_id);
  return part == disk_.parts.end() ? shard::CheckpointProgress() : Prepared(*part->second);
}

absl::StatusOr<shard::FileListSummary> PartStore::Verify(uint64_t checkpoint_id) {
  const auto part = disk_.parts.find(checkpoint_id);
  if (part != disk_.parts.end()) return Prepared(*part->second).files;
  return StatusWithReason(
      absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
      absl::StrCat("this shard has no part of cluster checkpoint ", checkpoint_id));
}

absl::Status PartStore::Load(uint64_t checkpoint_id, shard::ShardCore& core) const {
  return RestoreImage(*disk_.parts.at(checkpoint_id), core);
}

absl::StatusOr<int64_t> PartStore::Retain(const std::vector<uint64_t>& checkpoint_ids) {
  return static_cast<int64_t>(std::erase_if(disk_.parts, [&](const auto& part) {
    return std::find(checkpoint_ids.begin(), checkpoint_ids.end(), part.first) ==
           checkpoint_ids.end();
  }));
}

std::vector<uint64_t> PartStore::List() const {
  std::vector<uint64_t> checkpoint_ids;
  for (const auto& [checkpoint_id, image] : disk_.parts) checkpoint_ids.push_back(checkpoint_id);
  return checkpoint_ids;
}

}  // namespace dslide::simulation
