#include "client/cli/model/model_dir_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cli/model/model_files.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"

namespace dslide::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kWriting[] = ".writing";
constexpr char kReady[] = ".ready";
constexpr char kMoving[] = ".moving";
constexpr char kOrigin[] = "dslide.json";
// Renames take less; a busy disk may make them wait.
constexpr absl::Duration kMovesWithin = absl::Seconds(10);
constexpr absl::Duration kMovePoll = absl::Milliseconds(20);

bool IsShardDir(absl::string_view name) {
  return absl::ConsumePrefix(&name, "shard-") && !name.empty() &&
         name.find_first_not_of("0123456789") == absl::string_view::npos;
}

bool IsRowsDir(const std::string& name) { return name == "coordinator" || IsShardDir(name); }

bool BelongsToModel(const std::string& name) {
  return IsModelFile(name) || IsRowsDir(name) ||
         // Of a text that was being written when the process was killed.
         IsModelFile(name.substr(0, name.find(".partial")));
}

bool BelongsToWriter(const std::string& name) {
  return name == kModelDirLock || name == kWriting || name == kReady || name == kMoving;
}

// Sorted.
absl::StatusOr<std::vector<std::string>> EntriesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) return LocalFileError("list", directory, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? LocalFileError("remove", path, error.value()) : absl::OkStatus();
}

absl::Status MoveTo(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? LocalFileError("rename", from, error.value()) : absl::OkStatus();
}

// What takes the place of the earlier model: it goes, what says that it is one first.
absl::Status RemoveModel(const std::string& path) {
  RETURN_IF_ERROR(RemoveTree(absl::StrCat(path, "/", kOrigin)));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesIn(path));
  for (const std::string& name : names) {
    if (BelongsToModel(name)) RETURN_IF_ERROR(RemoveTree(absl::StrCat(path, "/", name)));
  }
  return absl::OkStatus();
}

// What says that it is a model comes last.
absl::Status MoveModel(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, EntriesIn(from));
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name != kOrigin; });
  for (const std::string& name : names) {
    const std::string target = absl::StrCat(to, "/", name);
    RETURN_IF_ERROR(MoveTo(absl::StrCat(from, "/", name), target));
  }
  return absl::OkStatus();
}

// Ends what a process that put a model in place has begun, from wherever it was.
absl::Status FinishMove(const std::string& path) {
  const std::string ready = absl::StrCat(path, "/", kReady);
  const std::string moving = absl::StrCat(path, "/", kMoving);
  std::error_code error;
  if (fs::exists(ready, error)) {
    RETURN_IF_ERROR(RemoveModel(path));
    RETURN_IF_ERROR(MoveTo(ready, moving));
  }
  if (!fs::exists(moving, error)) return absl::OkStatus();
  RETURN_IF_ERROR(MoveModel(moving, path));
  RETURN_IF_ERROR(RemoveTree(moving));
  return SyncFolder(path);
}

// A shard or coordinator that was started with a directory of the model.
absl::Status CheckNotServed(const std::string& path, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!IsShardDir(name)) continue;
    const std::string file = absl::StrCat(path, "/", name, "/LOCK");
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    const bool used = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd);
    if (!used) continue;
    return absl::InvalidArgumentError(absl::StrCat("--model-dir ", path, ": a shard serves from ",
                                                   path, "/", name,
                                                   ": stop it, or name another directory"));
  }
  return absl::OkStatus();
}

absl::Status Unsuitable(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--model-dir ", path, ": ", why));
}

absl::Status CheckSuits(const std::string& path, ModelDirUse use,
                        const std::vector<std::string>& names) {
  const auto has = [&](absl::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (use == ModelDirUse::kContinue)
    return absl::OkStatus();  // whoever loads it says what is wrong
  const bool overwrite = use == ModelDirUse::kOverwrite;
  if (has(kOrigin)) {
    return overwrite ? absl::OkStatus()
                     : Unsuitable(path,
                                  "holds a model already; pass --overwrite to replace it, or "
                                  "--resume to train it further");
  }
  bool parts = false;
  bool rows = false;
  for (const std::string& name : names) {
    if (BelongsToWriter(name)) continue;
    if (!BelongsToModel(name)) {
      return Unsuitable(path, absl::StrCat("holds files that are no model (", name,
                                           "); name an empty or new directory"));
    }
    parts = true;
    rows = rows || IsRowsDir(name);
  }
  // A cluster keeps its data under the same names.
  if (rows && !has("model.json")) {
    return Unsuitable(path,
                      "holds rows without a model.json, which may be those of a cluster; name "
                      "an empty or new directory");
  }
  if (!parts || overwrite) return absl::OkStatus();
  return Unsuitable(path, absl::StrCat("holds parts of a model (", absl::StrJoin(names, ", "),
                                       "), as a training that failed left them; pass --overwrite "
                                       "to replace them"));
}

}  // namespace

ModelDirWriter::ModelDirWriter(std::string path, std::unique_ptr<ModelDirLock> lock)
    : path_(std::move(path)),
      staging_(absl::StrCat(path_, "/", kWriting)),
      lock_(std::move(lock)) {}

absl::StatusOr<std::unique_ptr<ModelDirWriter>> ModelDirWriter::Open(const std::string& path,
                                                                     ModelDirUse use) {
  ASSIGN_OR_RETURN(std::unique_ptr<ModelDirLock> lock, ModelDirLock::Take(path));
  RETURN_IF_ERROR(FinishMove(path));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesIn(path));
  RETURN_IF_ERROR(CheckSuits(path, use, names));
  RETURN_IF_ERROR(CheckNotServed(path, names));
  std::unique_ptr<ModelDirWriter> writer(new ModelDirWriter(path, std::move(lock)));
  RETURN_IF_ERROR(RemoveTree(writer->staging_));
  std::error_code error;
  fs::create_directory(writer->staging_, error);
  if (error) return LocalFileError("write to --model-dir: make", writer->staging_, error.value());
  return writer;
}

ModelDirWriter::~ModelDirWriter() { RemoveTree(staging_).IgnoreError(); }

absl::Status ModelDirWriter::Commit() {
  RETURN_IF_ERROR(SyncModelFiles(staging_));
  RETURN_IF_ERROR(MoveTo(staging_, absl::StrCat(path_, "/", kReady)));
  RETURN_IF_ERROR(SyncFolder(path_));
  return FinishMove(path_);
}

absl::Status AwaitModelInPlace(const std::string& path) {
  std::error_code error;
  for (absl::Duration waited; waited < kMovesWithin; waited += kMovePoll) {
    if (!fs::exists(absl::StrCat(path, "/", kReady), error) &&
        !fs::exists(absl::StrCat(path, "/", kMoving), error)) {
      return absl::OkStatus();
    }
    absl::SleepFor(kMovePoll);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("--model-dir ", path,
                   ": its new model is complete, but the process that put it in place was "
                   "killed: dslide train --resume with this directory first ends that"));
}

std::string WhyNoModel(const std::string& path) {
  std::error_code error;
  if (!fs::exists(absl::StrCat(path, "/", kWriting), error)) return "";
  const std::string holder = ModelDirHolder(path);
  return absl::StrCat(" yet: ", holder.empty() ? "a training" : holder,
                      " is writing one, or was killed before it was complete");
}

}  // namespace dslide::cli
