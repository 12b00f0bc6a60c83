// The directory of a shard (docs/operate/checkpoint.md has its layout).

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "services/inspect/directory_examination.h"
#include "services/inspect/directory_use.h"
#include "services/inspect/disk_room.h"
#include "services/inspect/log_inspection.h"
#include "services/shard/durability/log_directory.h"
#include "services/shard/image/file_list.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/shard_image.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr char kCommandLog[] = "command_log";
constexpr char kFromCopy[] =
    "put it back from a copy (dslide checkpoint restore --from DIR), or restore an older one by "
    "its "
    "number";

std::vector<fs::path> EntriesOf(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) entries.push_back(entry);
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool IsLeftover(const std::string& name) {
  return shard::ImageStore::IsLeftover(name) || absl::EndsWith(name, ".new");
}

// Everything that an image says about itself.
absl::StatusOr<shard::ImageContent> ExamineImage(const std::string& path) {
  absl::StatusOr<shard::ImageContent> content = shard::InspectImage(path);
  if (content.ok()) RETURN_IF_ERROR(shard::VerifyFileList(path).status());
  return content;
}

class ShardExamination {
 public:
  explicit ShardExamination(const std::string& path)
      : directory_(path),
        images_(shard::ImageStore::DirectoryIn(path)),
        used_(ShardUses(path)),
        logged_(shard::LogDirectory::Exists(path)) {}

  Findings Run() {
    if (used_) {
      findings_.Note(directory_.string(),
                     "a shard uses this directory: only its cluster checkpoints are examined",
                     "stop the shard, or examine a copy, for the rest");
    }
    if (const absl::Status seen = shard::ImageStore::CheckListable(images_.string()); !seen.ok()) {
      findings_.Error(images_.string(), seen, RemedyFor(seen, ""));
    }
    ClusterCheckpoints();
    if (!used_) {
      Models();
      CommandLog();
      Stop();
      Leftovers(directory_);
      Leftovers(images_);
    }
    ExamineRoom(directory_.string(), largest_, findings_);
    return std::move(findings_);
  }

 private:
  void Leftovers(const fs::path& directory) {
    for (const fs::path& entry : EntriesOf(directory)) {
      if (!IsLeftover(entry.filename().string())) continue;
      findings_.Note(entry.string(), "was being written or replaced when the process ended",
                     "nothing: the next start removes it, or puts it back");
    }
  }

  void ClusterCheckpoints() {
    int64_t whole = 0;
    std::error_code error;
    for (const fs::path& entry : EntriesOf(images_)) {
      if (!shard::CheckpointOf(entry.filename().string()).has_value()) continue;
      largest_ = std::max(largest_, TreeBytes(entry.string()));
      const auto files = shard::VerifyFileList(entry.string());
      // A shard that runs may have removed it meanwhile.
      if (!fs::exists(entry, error)) continue;
      files.ok()
          ? void(++whole)
          : findings_.Error(entry.string(), files.status(), RemedyFor(files.status(), kFromCopy));
    }
    if (whole > 0) {
      findings_.Ok(images_.string(),
                   absl::StrCat(whole, " parts of cluster checkpoints are as they were written"));
    }
  }

  void Models() {
    for (const fs::path& entry : EntriesOf(images_)) {
      const std::string label = entry.filename().string();
      if (IsLeftover(label)) continue;
      const auto rows = shard::ModelRowsOf(label);
      if (rows.has_value()) Model(entry.string(), rows->model);
    }
  }

  void Model(const std::string& path, const std::string& name) {
    largest_ = std::max(largest_, TreeBytes(path));
    const auto content = ExamineImage(path);
    constexpr char kRemedy[] =
        "put this directory back from a copy, or remove it to give its rows up";
    if (!content.ok()) {
      findings_.Error(path, content.status(), RemedyFor(content.status(), kRemedy));
    } else if (content->models != std::vector<std::string>{name}) {
      findings_.Error(path,
                      absl::DataLossError(absl::StrCat("it is of model \"",
                                                       absl::StrJoin(content->models, "\", \""),
                                                       "\": directories were swapped")),
                      kRemedy);
    } else {
      has_rows_ = true;
      findings_.Ok(path, absl::StrCat(content->rows, " rows have the digest that was written"));
    }
  }

  void CommandLog() {
    if (!logged_) return;
    const std::string log_path = (directory_ / kCommandLog).string();
    const auto images = shard::LogDirectory::Images(directory_.string());
    if (!images.ok()) {
      findings_.Error(log_path, images.status(),
                      RemedyFor(images.status(),
                                "put the directory back from a copy, or restore a cluster "
                                "checkpoint into an empty one"));
    } else {
      Images(*images);
    }
    Leftovers(log_path);
    Leftovers(log_path + "/images");
    const absl::StatusOr<LogInspection> log = InspectCommandLog(directory_.string());
    if (!log.ok()) {
      findings_.Error(log_path, log.status(),
                      RemedyFor(log.status(),
                                "take the cluster back to a checkpoint (dslide checkpoint "
                                "restore), or put the directory back from a copy"));
    } else if (log->torn) {
      findings_.Note(log_path,
                     absl::StrCat("a crash has torn off the end after record ", log->last,
                                  ", which nobody was promised"),
                     "nothing: the next start cuts it off");
    } else {
      findings_.Ok(log_path, absl::StrCat(log->records, " records, up to ", log->last));
    }
  }

  void Images(const std::vector<shard::LogImage>& images) {
    int64_t damaged = 0;
    for (const shard::LogImage& named : images) {
      const std::string path = shard::LogDirectory::ImagePathIn(directory_.string(), named);
      largest_ = std::max(largest_, TreeBytes(path));
      absl::Status status;
      const auto image = ExamineImage(path);
      if (!image.ok()) {
        status = image.status();
      } else if (image->lsn != named.lsn) {
        status = absl::DataLossError(absl::StrCat("is the image of record ", image->lsn));
      }
      if (status.ok()) {
        findings_.Ok(path, absl::StrCat(image->rows, " rows have the digest that was written"));
        continue;
      }
      ++damaged;
      const bool last = damaged == static_cast<int64_t>(images.size());
      findings_.Error(
          path, status,
          RemedyFor(status, last ? "no image is left: take the cluster back to a checkpoint, or "
                                   "put the directory back from a copy"
                                 : "the next start uses the other image and the log; then look "
                                   "after the disk"));
    }
  }

  void Stop() {
    const std::string path = (images_ / shard::kStoppedLabel).string();
    std::error_code error;
    if (!fs::exists(path, error)) {
      // In the log modes nothing is needed besides the log.
      if (logged_ || !has_rows_) return;
      findings_.Note(directory_.string(),
                     "the last process did not stop in good order: its rows are those of an "
                     "earlier stop, and it knows no client",
                     "start it: the coordinator takes the cluster back to its newest checkpoint");
      return;
    }
    const absl::Status status = ExamineImage(path).status();
    if (status.ok()) {
      findings_.Ok(path, "the last process stopped in good order");
    } else {
      findings_.Error(
          path, status,
          RemedyFor(status,
                    "remove it: the shard starts with the rows alone, and knows no client"));
    }
  }

  const fs::path directory_;
  const fs::path images_;
  const bool used_;
  const bool logged_;
  bool has_rows_ = false;
  int64_t largest_ = 0;  // bytes of the largest image or checkpoint
  Findings findings_;
};

}  // namespace

Findings ExamineShardDirectory(const std::string& path) { return ShardExamination(path).Run(); }

}  // namespace dslide
