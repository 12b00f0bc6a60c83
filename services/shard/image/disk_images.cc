#include "services/shard/image/disk_images.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "services/common/files/durable_files.h"
#include "services/shard/image/image_label.h"

namespace dslide::shard {
namespace {

// The coordinator has all shards verify their parts before the first one goes back. What was read
// longer ago says little about the disk.
constexpr absl::Duration kVerifiedFor = absl::Minutes(10);

}  // namespace

DiskImages::~DiskImages() {
  std::thread thread;
  {
    const absl::MutexLock lock(&mu_);
    if (snapshot_ != nullptr) snapshot_->Abandon();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

std::string DiskImages::PathOf(uint64_t checkpoint_id) const {
  return store_->PathOf(CheckpointLabel(checkpoint_id));
}

std::string DiskImages::ArrivalPathOf(uint64_t checkpoint_id) const {
  return store_->ArrivalPathOf(CheckpointLabel(checkpoint_id));
}

absl::StatusOr<FileListSummary> DiskImages::Adopt(uint64_t checkpoint_id, uint32_t checksum) {
  ASSIGN_OR_RETURN(const FileListSummary files,
                   store_->Adopt(CheckpointLabel(checkpoint_id), checksum));
  LogInfo("part of a cluster checkpoint taken in from a copy",
          {{"checkpoint_id", checkpoint_id}, {"files", files.files}, {"bytes", files.bytes}});
  const absl::MutexLock lock(&mu_);
  progress_.erase(checkpoint_id);
  verified_[checkpoint_id] = {.checksum = files.checksum, .at = clock_->Now()};
  return files;
}

absl::Status DiskImages::Begin(uint64_t checkpoint_id, std::shared_ptr<ShardSnapshot> snapshot,
                               std::function<void(std::shared_ptr<ShardSnapshot>)> over) {
  const absl::MutexLock lock(&mu_);
  if (writing_) {
    return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kCheckpointRunning,
                            "this shard still writes another cluster checkpoint: wait for it");
  }
  if (thread_.joinable()) thread_.join();  // over already
  // An older part of that number is of a cut that was never committed; if this process died now,
  // the next one would take it for this one.
  RETURN_IF_ERROR(store_->Remove(CheckpointLabel(checkpoint_id)));
  writing_ = true;
  started_ = clock_->Now();
  snapshot_ = snapshot.get();
  snapshot_id_ = checkpoint_id;
  progress_[checkpoint_id] = {.state = CheckpointProgress::State::kWriting};
  verified_.erase(checkpoint_id);
  thread_ = std::thread(
      [this, checkpoint_id, snapshot = std::move(snapshot), over = std::move(over)]() mutable {
        Write(checkpoint_id, *snapshot);
        over(std::move(snapshot));
        const absl::MutexLock over_lock(&mu_);
        writing_ = false;
      });
  return absl::OkStatus();
}

void DiskImages::Abandon(uint64_t checkpoint_id) {
  const absl::MutexLock lock(&mu_);
  if (snapshot_ != nullptr && snapshot_id_ == checkpoint_id) snapshot_->Abandon();
}

void DiskImages::Write(uint64_t checkpoint_id, ShardSnapshot& snapshot) {
  CheckpointProgress progress{.state = CheckpointProgress::State::kPrepared};
  const absl::Status written = store_->Publish(
      CheckpointLabel(checkpoint_id),
      [&](const std::string& directory) { return WriteImage(snapshot, directory, progress); });
  if (!written.ok()) {
    snapshot.Abandon();
    LogError("cannot write this shard's part of a cluster checkpoint",
             {{"checkpoint_id", checkpoint_id}, {"error", written.message()}});
    progress.state = CheckpointProgress::State::kFailed;
    progress.error = written;
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

absl::StatusOr<LinkedBase> DiskImages::LinkBaseOf(const ShardSnapshot& snapshot,
                                                  const std::string& directory) const {
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
  if (share.changed_bytes > share.bytes / 2) {
    return absl::FailedPreconditionError(absl::StrCat(
        share.changed_bytes, " of ", share.bytes, " bytes of rows have changed, more than half"));
  }
  return LinkBase(PathOf(base.checkpoint_id), base.files_checksum, snapshot.parts(), directory);
}

absl::Status DiskImages::WriteImage(ShardSnapshot& snapshot, const std::string& directory,
                                    CheckpointProgress& progress) {
  absl::StatusOr<LinkedBase> linked = LinkBaseOf(snapshot, directory);
  if (!linked.ok()) {
    if (!linked.status().message().empty()) {
      LogInfo("all rows are written for a cluster checkpoint",
              {{"because", linked.status().message()}});
    }
    RETURN_IF_ERROR(RemoveAll(directory));
  }
  ASSIGN_OR_RETURN(const ImageSize size, linked.ok() ? snapshot.WriteIncrement(directory, *linked)
                                                     : snapshot.Write(directory));
  DSLIDE_FAILPOINT("shard.part.written");
  progress.files = size.files;
  progress.rows = size.rows;
  progress.written_bytes = size.bytes;
  if (linked.ok()) progress.base_checkpoint_id = snapshot.base().checkpoint_id;
  return absl::OkStatus();
}

CheckpointProgress DiskImages::Progress(uint64_t checkpoint_id) const {
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
  CheckpointProgress progress;
  const absl::StatusOr<FileListSummary> files = ReadFileList(PathOf(checkpoint_id));
  if (files.ok()) {
    progress.state = CheckpointProgress::State::kPrepared;
    progress.files = *files;
    const absl::StatusOr<ImageHead> head = ReadImageHead(PathOf(checkpoint_id));
    if (head.ok()) progress.base_checkpoint_id = head->base_checkpoint_id;
  }
  return progress;
}

absl::StatusOr<FileListSummary> DiskImages::Verify(uint64_t checkpoint_id) {
  absl::StatusOr<FileListSummary> files = store_->Verify(CheckpointLabel(checkpoint_id));
  const absl::MutexLock lock(&mu_);
  verified_.erase(checkpoint_id);
  if (files.ok()) verified_[checkpoint_id] = {.checksum = files->checksum, .at = clock_->Now()};
  return files;
}

bool DiskImages::VerifiedLately(uint64_t checkpoint_id, uint32_t checksum) const {
  const absl::MutexLock lock(&mu_);
  const auto found = verified_.find(checkpoint_id);
  return found != verified_.end() && found->second.checksum == checksum &&
         clock_->Now() - found->second.at < kVerifiedFor;
}

absl::Status DiskImages::Load(uint64_t checkpoint_id, ShardCore& core) const {
  return LoadImage(PathOf(checkpoint_id), core).status();
}

std::vector<uint64_t> DiskImages::List() const {
  std::vector<uint64_t> checkpoint_ids;
  for (const std::string& label : store_->Labels()) {
    if (const auto checkpoint_id = CheckpointOf(label); checkpoint_id.has_value()) {
      checkpoint_ids.push_back(*checkpoint_id);
    }
  }
  return checkpoint_ids;
}

absl::StatusOr<int64_t> DiskImages::Retain(const std::vector<uint64_t>& checkpoint_ids) {
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
