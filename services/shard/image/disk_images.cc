#include "services/shard/image/disk_images.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "services/common/files/durable_files.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

// No model's directory: their names have no underscore.
constexpr char kDirectory[] = "cluster_checkpoints";
constexpr char kPrefix[] = "epoch-";
constexpr char kTemporary[] = ".tmp-";
constexpr char kArriving[] = ".tmp-arriving-";

std::string NameOf(uint64_t checkpoint_id) {
  return absl::StrFormat("%s%020d", kPrefix, checkpoint_id);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskImages>> DiskImages::Open(const std::string& data_dir,
                                                             const Clock* clock) {
  const fs::path directory = fs::path(data_dir) / kDirectory;
  RETURN_IF_ERROR(MakeDirectory(directory));
  std::vector<fs::path> unfinished;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (absl::StartsWith(entry.path().filename().string(), kTemporary)) {
      unfinished.push_back(entry.path());
    }
  }
  for (const fs::path& path : unfinished) {
    LogWarning("removing an unfinished part of a cluster checkpoint", {{"path", path.string()}});
    RETURN_IF_ERROR(RemoveAll(path));
  }
  return std::unique_ptr<DiskImages>(new DiskImages(directory.string(), clock));
}

DiskImages::DiskImages(std::string directory, const Clock* clock)
    : directory_(std::move(directory)), clock_(clock) {}

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
  return (fs::path(directory_) / NameOf(checkpoint_id)).string();
}

std::string DiskImages::ArrivalPathOf(uint64_t checkpoint_id) const {
  return (fs::path(directory_) / absl::StrCat(kArriving, NameOf(checkpoint_id))).string();
}

absl::StatusOr<FileListSummary> DiskImages::TakeArrival(uint64_t checkpoint_id, uint32_t checksum) {
  const fs::path arrival = ArrivalPathOf(checkpoint_id);
  const fs::path target = PathOf(checkpoint_id);
  absl::StatusOr<FileListSummary> sent = VerifyFileList(arrival.string());
  if (sent.ok() && sent->checksum != checksum) {
    sent = absl::DataLossError(absl::StrFormat(
        "the files that were sent have a list with checksum %08x, the manifest says %08x: they are "
        "of another checkpoint",
        sent->checksum, checksum));
  }
  if (!sent.ok()) {
    // Nothing of it stays in the way of the next attempt.
    RemoveAll(arrival).IgnoreError();
    return sent;
  }
  const FileListSummary files = *sent;
  RETURN_IF_ERROR(SyncTree(arrival));
  RETURN_IF_ERROR(RemoveAll(target));
  RETURN_IF_ERROR(Rename(arrival, target));
  RETURN_IF_ERROR(SyncDirectory(directory_));
  LogInfo("part of a cluster checkpoint taken in from a copy",
          {{"epoch", checkpoint_id}, {"files", files.files}, {"bytes", files.bytes}});
  const absl::MutexLock lock(&mu_);
  progress_.erase(checkpoint_id);
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
  RETURN_IF_ERROR(RemovePart(checkpoint_id));
  writing_ = true;
  started_ = clock_->Now();
  snapshot_ = snapshot.get();
  snapshot_id_ = checkpoint_id;
  progress_[checkpoint_id] = {.state = CheckpointProgress::State::kWriting};
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
  CheckpointProgress progress;
  const absl::Status written = WriteAndPublish(checkpoint_id, snapshot, progress);
  if (!written.ok()) {
    snapshot.Abandon();
    LogError("cannot write this shard's part of a cluster checkpoint",
             {{"epoch", checkpoint_id}, {"error", written.message()}});
    progress.state = CheckpointProgress::State::kFailed;
    progress.error = written;
  }
  const absl::MutexLock lock(&mu_);
  progress.elapsed = clock_->Now() - started_;
  if (written.ok()) {
    LogInfo("part of a cluster checkpoint written",
            {{"epoch", checkpoint_id},
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
  if (!linked.ok()) linked = LinkedBase();
  ASSIGN_OR_RETURN(progress.files, WriteFileList(directory, linked->files));
  DSLIDE_FAILPOINT("shard.part.listed");
  progress.rows = size.rows;
  progress.written_bytes = progress.files.bytes - linked->bytes();
  if (!linked->files.empty()) progress.base_checkpoint_id = snapshot.base().checkpoint_id;
  return absl::OkStatus();
}

absl::Status DiskImages::WriteAndPublish(uint64_t checkpoint_id, ShardSnapshot& snapshot,
                                         CheckpointProgress& progress) {
  const fs::path temporary = fs::path(directory_) / absl::StrCat(kTemporary, NameOf(checkpoint_id));
  const fs::path target = PathOf(checkpoint_id);
  RETURN_IF_ERROR(RemoveAll(temporary));
  const auto write = [&]() -> absl::Status {
    RETURN_IF_ERROR(WriteImage(snapshot, temporary.string(), progress));
    RETURN_IF_ERROR(Rename(temporary, target));
    DSLIDE_FAILPOINT("shard.part.renamed");
    RETURN_IF_ERROR(SyncDirectory(directory_));
    DSLIDE_FAILPOINT("shard.part.durable");
    return absl::OkStatus();
  };
  absl::Status written = write();
  if (!written.ok()) RemoveAll(temporary).IgnoreError();
  progress.state = CheckpointProgress::State::kPrepared;
  return written;
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

absl::StatusOr<FileListSummary> DiskImages::Verify(uint64_t checkpoint_id) const {
  std::error_code error;
  if (!fs::is_directory(PathOf(checkpoint_id), error)) {
    return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                            absl::StrCat("this shard has no part of cluster checkpoint ",
                                         checkpoint_id, " in ", directory_));
  }
  return VerifyFileList(PathOf(checkpoint_id));
}

absl::Status DiskImages::Load(uint64_t checkpoint_id, ShardCore& core) const {
  return LoadImage(PathOf(checkpoint_id), core).status();
}

std::vector<uint64_t> DiskImages::List() const {
  std::vector<uint64_t> checkpoint_ids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t checkpoint_id = 0;
    if (absl::StartsWith(name, kPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kPrefix) - 1), &checkpoint_id)) {
      checkpoint_ids.push_back(checkpoint_id);
    }
  }
  std::sort(checkpoint_ids.begin(), checkpoint_ids.end());
  return checkpoint_ids;
}

absl::Status DiskImages::RemovePart(uint64_t checkpoint_id) const {
  std::error_code error;
  if (!fs::exists(PathOf(checkpoint_id), error)) return absl::OkStatus();
  // Its name first, so that half of it is never found.
  const fs::path doomed = fs::path(directory_) / absl::StrCat(kTemporary, NameOf(checkpoint_id));
  RETURN_IF_ERROR(RemoveAll(doomed));
  RETURN_IF_ERROR(Rename(PathOf(checkpoint_id), doomed));
  DSLIDE_FAILPOINT("shard.part.doomed");
  RETURN_IF_ERROR(SyncDirectory(directory_));
  RETURN_IF_ERROR(RemoveAll(doomed));
  DSLIDE_FAILPOINT("shard.part.removed");
  return absl::OkStatus();
}

absl::StatusOr<int64_t> DiskImages::Retain(const std::vector<uint64_t>& checkpoint_ids) {
  int64_t removed = 0;
  for (const uint64_t checkpoint_id : List()) {
    if (std::find(checkpoint_ids.begin(), checkpoint_ids.end(), checkpoint_id) !=
        checkpoint_ids.end())
      continue;
    RETURN_IF_ERROR(RemovePart(checkpoint_id));
    const absl::MutexLock lock(&mu_);
    progress_.erase(checkpoint_id);
    ++removed;
  }
  return removed;
}

}  // namespace dslide::shard
