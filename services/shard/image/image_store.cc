#include "services/shard/image/image_store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/files/system_error.h"
#include "core/system/log.h"
#include "services/common/files/durable_files.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/part_base.h"
#include "services/shard/image/shard_image.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

constexpr char kImages[] = "images";
constexpr char kTemporary[] = ".tmp-";
constexpr char kArriving[] = ".tmp-arriving-";
constexpr char kReplaced[] = ".old-";

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.is_directory(error)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Finishes or undoes what a crash interrupted.
absl::Status SweepName(const std::string& directory, const std::string& name) {
  const fs::path path = fs::path(directory) / name;
  absl::string_view label = name;
  std::error_code error;
  if (absl::StartsWith(name, kTemporary)) {
    LogWarning("removing an unfinished image", {{"path", path.string()}});
    return RemoveAll(path);
  }
  if (!absl::ConsumePrefix(&label, kReplaced)) return absl::OkStatus();
  const fs::path target = fs::path(directory) / std::string(label);
  if (fs::exists(target, error)) return RemoveAll(path);
  LogWarning("putting back an image that was being replaced", {{"path", target.string()}});
  return Rename(path, target);
}

}  // namespace

std::string ImageStore::DirectoryIn(const std::string& data_dir) {
  return (fs::path(data_dir) / kImages).string();
}

absl::StatusOr<std::unique_ptr<ImageStore>> ImageStore::Open(const std::string& directory) {
  auto store = std::make_unique<ImageStore>(directory);
  RETURN_IF_ERROR(store->Sweep());
  return store;
}

absl::Status ImageStore::Sweep() {
  RETURN_IF_ERROR(MakeDirectory(directory_));
  RETURN_IF_ERROR(SyncDirectory(fs::path(directory_).parent_path()));
  RETURN_IF_ERROR(CheckListable(directory_));
  for (const std::string& name : NamesIn(directory_)) RETURN_IF_ERROR(SweepName(directory_, name));
  return absl::OkStatus();
}

ImageStore::ImageStore(std::string directory) : directory_(std::move(directory)) {}

absl::Status ImageStore::CheckListable(const std::string& directory) {
  std::error_code error;
  const fs::directory_iterator listed(directory, error);
  if (!error || error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  return SystemError("list", directory, error.value());
}

bool ImageStore::IsLeftover(const std::string& name) {
  return absl::StartsWith(name, kTemporary) || absl::StartsWith(name, kReplaced);
}

std::vector<std::string> ImageStore::LabelsIn(const std::string& directory) {
  std::vector<std::string> labels;
  for (const std::string& name : NamesIn(directory)) {
    if (!absl::StartsWith(name, kTemporary)) {
      labels.emplace_back(absl::StripPrefix(name, kReplaced));
    }
  }
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

bool ImageStore::Has(const std::string& label) const {
  std::error_code error;
  return fs::is_directory(PathOf(label), error);
}

std::string ImageStore::PathOf(const std::string& label) const {
  return absl::StrCat(directory_, "/", label);
}

std::string ImageStore::ArrivalPathOf(const std::string& label) const {
  return absl::StrCat(directory_, "/", kArriving, label);
}

absl::Status ImageStore::Publish(const std::string& label, Writer write) {
  const std::string fresh = absl::StrCat(directory_, "/", kTemporary, label);
  RETURN_IF_ERROR(RemoveAll(fresh));
  absl::Status published = write(fresh);
  if (published.ok()) {
    DSLIDE_FAILPOINT("shard.image.written");
    published = PutInPlace(fresh, label);
  }
  if (!published.ok()) RemoveAll(fresh).IgnoreError();
  return published;
}

absl::StatusOr<LoadedImage> ImageStore::Load(const std::string& label, ShardCore& core) const {
  return LoadImage(PathOf(label), core);
}

absl::Status ImageStore::Write(const std::string& label, uint64_t lsn, const ShardCore& core) {
  return Publish(label, [&](const std::string& directory) {
    return WriteImage(directory, lsn, core).status();
  });
}

absl::StatusOr<ImageSize> ImageStore::SizeOf(const std::string& label) const {
  ImageSize size;
  ASSIGN_OR_RETURN(size.files, ReadFileList(PathOf(label)));
  const absl::StatusOr<ImageHead> head = ReadImageHead(PathOf(label));
  if (head.ok()) size.base_checkpoint_id = head->base_checkpoint_id;
  return size;
}

void ImageStore::Begin(ImageTask task) {
  Wait();
  thread_ = std::thread([this, task = std::move(task)] {
    absl::StatusOr<ImageSize> size;
    const auto write = [&](const std::string& directory) -> absl::Status {
      size = WriteTo(directory, task);
      return size.ok() ? task.written() : size.status();
    };
    if (absl::Status published = Publish(task.label, write); !published.ok()) {
      task.snapshot->Abandon();
      size = std::move(published);
    }
    task.over(size);
  });
}

absl::StatusOr<ImageSize> ImageStore::WriteTo(const std::string& directory,
                                              const ImageTask& task) const {
  if (task.check_base == nullptr) return task.snapshot->Write(directory);
  const PartBase& base = task.snapshot->base();
  const auto link = [&]() -> absl::StatusOr<LinkedBase> {
    RETURN_IF_ERROR(task.check_base());
    return LinkBase(PathOf(CheckpointLabel(base.checkpoint_id)), base.files_checksum,
                    task.snapshot->parts(), directory);
  };
  const absl::StatusOr<LinkedBase> linked = link();
  if (linked.ok()) return task.snapshot->WriteIncrement(directory, *linked);
  if (!linked.status().message().empty()) {
    LogInfo("all rows are written for a cluster checkpoint",
            {{"because", linked.status().message()}});
  }
  RETURN_IF_ERROR(RemoveAll(directory));
  return task.snapshot->Write(directory);
}

void ImageStore::Wait() {
  if (thread_.joinable()) thread_.join();
}

absl::Status ImageStore::PutInPlace(const std::string& fresh, const std::string& label) {
  const std::string target = PathOf(label);
  const std::string old = absl::StrCat(directory_, "/", kReplaced, label);
  if (Has(label)) {
    RETURN_IF_ERROR(RemoveAll(old));
    RETURN_IF_ERROR(Rename(target, old));
    DSLIDE_FAILPOINT("shard.checkpoint.moved_aside");
  }
  RETURN_IF_ERROR(Rename(fresh, target));
  DSLIDE_FAILPOINT("shard.image.renamed");
  RETURN_IF_ERROR(SyncDirectory(directory_));
  DSLIDE_FAILPOINT("shard.image.durable");
  return RemoveAll(old);
}

absl::StatusOr<FileListSummary> ImageStore::Verify(const std::string& label) const {
  if (!Has(label)) {
    return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                            absl::StrCat("there is no image ", label, " in ", directory_));
  }
  return VerifyFileList(PathOf(label));
}

absl::StatusOr<FileListSummary> ImageStore::Adopt(const std::string& label, uint32_t checksum) {
  const std::string arrival = ArrivalPathOf(label);
  absl::StatusOr<FileListSummary> sent = VerifyFileList(arrival);
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
  RETURN_IF_ERROR(SyncTree(arrival));
  RETURN_IF_ERROR(PutInPlace(arrival, label));
  return sent;
}

absl::Status ImageStore::Remove(const std::string& label) {
  if (!Has(label)) return absl::OkStatus();
  const std::string doomed = absl::StrCat(directory_, "/", kTemporary, label);
  RETURN_IF_ERROR(RemoveAll(doomed));
  RETURN_IF_ERROR(Rename(PathOf(label), doomed));
  DSLIDE_FAILPOINT("shard.image.doomed");
  RETURN_IF_ERROR(SyncDirectory(directory_));
  RETURN_IF_ERROR(RemoveAll(doomed));
  DSLIDE_FAILPOINT("shard.image.removed");
  return absl::OkStatus();
}

}  // namespace dslide::shard
