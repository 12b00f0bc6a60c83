#include "services/shard/image/checkpoint_images.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "services/shard/image/image_label.h"

namespace dslide::shard {
namespace {

// The coordinator has all shards verify their parts before the first one goes back. What was read
// longer ago says little about the disk.
constexpr absl::Duration kVerifiedFor = absl::Minutes(10);

CheckpointProgress Prepared(const ImageSize& size) {
  return {.state = CheckpointProgress::State::kPrepared,
          .rows = size.rows,
          .files = size.files,
          .base_checkpoint_id = size.base_checkpoint_id,
          .written_bytes = size.bytes};
}

}  // namespace

CheckpointImages::~CheckpointImages() {
  {
    const absl::MutexLock lock(&mu_);
    if (snapshot_ != nullptr) snapshot_->Abandon();
  }
  store_->Wait();
}

std::string CheckpointImages::PathOf(uint64_t checkpoint_id) const {
  return store_->PathOf(CheckpointLabel(checkpoint_id));
}

std::string CheckpointImages::ArrivalPathOf(uint64_t checkpoint_id) const {
  return store_->ArrivalPathOf(CheckpointLabel(checkpoint_id));
}

absl::StatusOr<FileListSummary> CheckpointImages::Adopt(uint64_t checkpoint_id, uint32_t checksum) {
  ASSIGN_OR_RETURN(const FileListSummary files,
                   store_->Adopt(CheckpointLabel(checkpoint_id), checksum));
  LogInfo("part of a cluster checkpoint taken in from a copy",
          {{"checkpoint_id", checkpoint_id}, {"files", files.files}, {"bytes", files.bytes}});
  const absl::MutexLock lock(&mu_);
  progress_.erase(checkpoint_id);
  verified_[checkpoint_id] = {.checksum = files.checksum, .at = clock_->Now()};
  return files;
}

absl::Status CheckpointImages::Begin(uint64_t checkpoint_id,
                                     std::shared_ptr<ShardSnapshot> snapshot,
                                     std::function<void(std::shared_ptr<ShardSnapshot>)> over) {
  const absl::MutexLock lock(&mu_);
  if (writing_) {
    return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kCheckpointRunning,
                            "this shard still writes another cluster checkpoint: wait for it");
  }
  // An older part of that number is of a cut that was never committed; if this process died now,
  // the next one would take it for this one.
  RETURN_IF_ERROR(store_->Remove(CheckpointLabel(checkpoint_id)));
  writing_ = true;
  started_ = clock_->Now();
  snapshot_ = snapshot.get();
  snapshot_id_ = checkpoint_id;
  progress_[checkpoint_id] = {.state = CheckpointProgress::State::kWriting};
  verified_.erase(checkpoint_id);
  store_->Begin({.label = CheckpointLabel(checkpoint_id),
                 .snapshot = snapshot.get(),
                 .check_base = [this, of = snapshot.get()] { return CheckBase(*of); },
                 .written =
                     [] {
                       DSLIDE_FAILPOINT("shard.part.written");
                       return absl::OkStatus();
                     },
                 .over =
                     [this, checkpoint_id, snapshot = std::move(snapshot),
                      over = std::move(over)](const absl::StatusOr<ImageSize>& written) mutable {
                       End(checkpoint_id, written);
                       over(std::move(snapshot));
                       const absl::MutexLock over_lock(&mu_);
                       writing_ = false;
                     }});
  return absl::OkStatus();
}

void CheckpointImages::Abandon(uint64_t checkpoint_id) {
  const absl::MutexLock lock(&mu_);
  if (snapshot_ != nullptr && snapshot_id_ == checkpoint_id) snapshot_->Abandon();
}

void CheckpointImages::End(uint64_t checkpoint_id, const absl::StatusOr<ImageSize>& written) {
  CheckpointProgress progress{.state = CheckpointProgress::State::kFailed,
                              .error = written.status()};
  if (written.ok()) {
    progress = Prepared(*written);
  } else {
    LogError("cannot write this shard's part of a cluster checkpoint",
             {{"checkpoint_id", checkpoint_id}, {"error", written.status().message()}});
  }
  const absl::MutexLock lock(&mu_);
  progress.elapsed = clock_->Now() - started_;
  if (written.ok()) {
    DSLIDE_FAILPOINT("shard.part.durable");
    LogInfo("part of a cluster checkpoint written",
            {{"checkpoint_id", checkpoint_id},
             {"rows", progress.rows},
             {"bytes", progress.files.bytes},
             {"written", progress.written_bytes},
             {"base", progress.base_checkpoint_id},
             {"duration", absl::FormatDuration(progress.elapsed)}});
  }
  progress_[checkpoint_id] = std::move(progress);
  snapshot_ = nullptr;
}

absl::Status CheckpointImages::CheckBase(const ShardSnapshot& snapshot) const {
  const PartBase& base = snapshot.base();
  if (base.checkpoint_id == 0) return absl::FailedPreconditionError(snapshot.why_no_base());
  if (snapshot.parts().models.empty()) return absl::FailedPreconditionError("there are no rows");
  {
    // What has changed is known since the cut of this process that had that number, so the part
    // must be the one that was written of it.
    const absl::MutexLock lock(&mu_);
    const auto written = progress_.find(base.checkpoint_id);
    if (written == progress_.end() ||
        written->second.state != CheckpointProgress::State::kPrepared ||
        written->second.files.checksum != base.files_checksum) {
      return absl::FailedPreconditionError(
          absl::StrCat("the part of checkpoint ", base.checkpoint_id,
                       " here is not the one that this process wrote"));
    }
  }
  const ShardSnapshot::Share share = snapshot.ChangedShare();
  if (share.changed_bytes <= share.bytes / 2) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(share.changed_bytes, " of ", share.bytes,
                                                    " bytes of rows have changed, more than half"));
}

CheckpointProgress CheckpointImages::Progress(uint64_t checkpoint_id) const {
  {
    const absl::MutexLock lock(&mu_);
    if (const auto found = progress_.find(checkpoint_id); found != progress_.end()) {
      CheckpointProgress progress = found->second;
      if (progress.state == CheckpointProgress::State::kWriting) {
        progress.elapsed = clock_->Now() - started_;
      }
      return progress;
    }
  }
  const absl::StatusOr<ImageSize> size = store_->SizeOf(CheckpointLabel(checkpoint_id));
  return size.ok() ? Prepared(*size) : CheckpointProgress();
}

absl::StatusOr<FileListSummary> CheckpointImages::Verify(uint64_t checkpoint_id) {
  return Verified(checkpoint_id, store_->Verify(CheckpointLabel(checkpoint_id)));
}

absl::StatusOr<FileListSummary> CheckpointImages::Verified(uint64_t checkpoint_id,
                                                           absl::StatusOr<FileListSummary> files) {
  const absl::MutexLock lock(&mu_);
  verified_.erase(checkpoint_id);
  if (files.ok()) verified_[checkpoint_id] = {.checksum = files->checksum, .at = clock_->Now()};
  return files;
}

bool CheckpointImages::VerifiedLately(uint64_t checkpoint_id, uint32_t checksum) const {
  const absl::MutexLock lock(&mu_);
  const auto found = verified_.find(checkpoint_id);
  return found != verified_.end() && found->second.checksum == checksum &&
         clock_->Now() - found->second.at < kVerifiedFor;
}

absl::StatusOr<FileListSummary> CheckpointImages::Load(uint64_t checkpoint_id, ShardCore& core) {
  const absl::StatusOr<LoadedImage> loaded = store_->Load(CheckpointLabel(checkpoint_id), core);
  if (!loaded.ok()) return loaded.status();
  return Verified(checkpoint_id, loaded->files);
}

std::vector<uint64_t> CheckpointImages::List() const {
  std::vector<uint64_t> checkpoint_ids;
  for (const std::string& label : store_->Labels()) {
    if (const auto checkpoint_id = CheckpointOf(label); checkpoint_id.has_value()) {
      checkpoint_ids.push_back(*checkpoint_id);
    }
  }
  return checkpoint_ids;
}

absl::StatusOr<int64_t> CheckpointImages::Retain(const std::vector<uint64_t>& checkpoint_ids) {
  int64_t removed = 0;
  for (const uint64_t checkpoint_id : List()) {
    if (std::find(checkpoint_ids.begin(), checkpoint_ids.end(), checkpoint_id) !=
        checkpoint_ids.end())
      continue;
    RETURN_IF_ERROR(store_->Remove(CheckpointLabel(checkpoint_id)));
    const absl::MutexLock lock(&mu_);
    progress_.erase(checkpoint_id);
    verified_.erase(checkpoint_id);
    ++removed;
  }
  return removed;
}

}  // namespace dslide::shard
