#include "services/shard/image/storage_checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "core/wire/envelope_codec.h"
#include "services/common/files/durable_files.h"
#include "services/shard/storage/storage_rows.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

constexpr char kTemporary[] = ".tmp-";
constexpr char kReplaced[] = ".old-";

absl::Status FileError(absl::string_view what, const fs::path& path, const std::error_code& error) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path.string(), ": ", error.message()));
}

// Puts `fresh` in the place of `target`, so that at every instant one of them is complete under its
// name or under the ".old-" one, which Sweep() puts back.
absl::Status Replace(const fs::path& fresh, const fs::path& target) {
  const fs::path parent = target.parent_path();
  const fs::path old = parent / absl::StrCat(kReplaced, target.filename().string());
  std::error_code error;
  if (fs::exists(target, error)) {
    RETURN_IF_ERROR(RemoveAll(old));
    RETURN_IF_ERROR(Rename(target, old));
    DSLIDE_FAILPOINT("shard.checkpoint.moved_aside");
  }
  RETURN_IF_ERROR(Rename(fresh, target));
  DSLIDE_FAILPOINT("shard.checkpoint.renamed");
  RETURN_IF_ERROR(SyncDirectory(parent));
  DSLIDE_FAILPOINT("shard.checkpoint.durable");
  return RemoveAll(old);
}

// Finishes or undoes what a crash interrupted in one model's directory.
absl::Status SweepModel(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(directory, error)) entries.push_back(entry);
  if (error) return FileError("list", directory, error);
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (name.rfind(kTemporary, 0) == 0) {
      LogWarning("removing an unfinished checkpoint", {{"path", entry.string()}});
      RETURN_IF_ERROR(RemoveAll(entry));
    } else if (name.rfind(kReplaced, 0) == 0) {
      const fs::path target = directory / name.substr(std::strlen(kReplaced));
      if (fs::exists(target, error)) {
        RETURN_IF_ERROR(RemoveAll(entry));
      } else {
        LogWarning("putting back a checkpoint that was being replaced",
                   {{"path", target.string()}});
        RETURN_IF_ERROR(Rename(entry, target));
      }
    }
  }
  return absl::OkStatus();
}

// A model that differs only in how its rows are stored is told so by table.
absl::Status CheckPrecisions(const ModelSpec& written, const ModelSpec& present) {
  for (const TableSpec& table : written.tables) {
    const TableSpec* const here = present.FindTable(table.name);
    if (here == nullptr || here->precision == table.precision) continue;
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
        absl::StrCat("the checkpoint has table \"", table.name, "\" in precision ",
                     PrecisionName(table.precision), ", the model that is here in ",
                     PrecisionName(here->precision),
                     ": create the model with the checkpoint's precision"));
  }
  return absl::OkStatus();
}

absl::Status CheckFit(const ShardCore& core, const CheckpointMetadata& metadata,
                      const ShardModel* present) {
  const ShardId shard = present != nullptr ? present->shard() : core.shard();
  if (shard.value() >= 0 && metadata.shard != shard) {
    return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kSlotsDiffer,
                            absl::StrCat("the checkpoint is of shard ", metadata.shard.value(),
                                         ", this is shard ", shard.value(),
                                         ": give this shard the data directory or the number "
                                         "that belong together"));
  }
  if (present == nullptr) return absl::OkStatus();
  if (metadata.slot_maps != present->slot_maps()) {
    const int64_t there = metadata.slot_maps.empty() ? 0 : metadata.slot_maps[0].num_shards();
    const int64_t here = present->slot_maps().empty() ? 0 : present->slot_maps()[0].num_shards();
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSlotsDiffer,
        absl::StrCat("the checkpoint's slots were dealt to ", there, " shards, the model's to ",
                     here, ", with other owners: rows would have to move between shards"));
  }
  ModelSpec wanted = metadata.spec;
  wanted.training = present->spec().training;
  RETURN_IF_ERROR(CheckPrecisions(wanted, present->spec()));
  if (wanted != present->spec()) {
    return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
                            absl::StrCat("the checkpoint is of another model than the \"",
                                         present->spec().name, "\" that is here"));
  }
  return absl::OkStatus();
}

absl::Status InCheckpoint(const fs::path& path, const absl::Status& status) {
  if (status.ok()) return status;
  return StatusWithReason(
      status.code(), ReasonOf(status),
      absl::StrCat("checkpoint ", path.string(), ": ", status.message(),
                   absl::IsDataLoss(status) ? "; restore this directory from a copy, or remove it "
                                              "to give the rows up"
                                            : ""));
}

}  // namespace

CheckpointStore::CheckpointStore(std::string data_dir, int lock_file)
    : data_dir_(std::move(data_dir)), lock_file_(lock_file) {}

CheckpointStore::~CheckpointStore() { close(lock_file_); }

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(
    const std::string& data_dir) {
  RETURN_IF_ERROR(MakeDirectory(data_dir));
  const std::string lock_path = absl::StrCat(data_dir, "/LOCK");
  const int lock_file = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_file < 0) return SystemError("open", lock_path, errno);
  std::unique_ptr<CheckpointStore> store(new CheckpointStore(data_dir, lock_file));
  if (flock(lock_file, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data directory ", data_dir, " is in use by another process: give each shard its own"));
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(data_dir, error)) {
    // A fresh volume has a lost+found that nobody may read.
    if (!wire::CheckName("model", entry.path().filename().string()).ok()) continue;
    if (entry.is_directory()) RETURN_IF_ERROR(SweepModel(entry.path()));
  }
  if (error) return FileError("list", data_dir, error);
  return store;
}

absl::StatusOr<CheckpointSize> CheckpointStore::Write(const ShardModel& model,
                                                      const std::string& checkpoint) {
  const fs::path directory = fs::path(data_dir_) / model.spec().name;
  const fs::path temporary = directory / absl::StrCat(kTemporary, checkpoint);
  const fs::path target = directory / checkpoint;
  RETURN_IF_ERROR(MakeDirectory(directory));
  RETURN_IF_ERROR(RemoveAll(temporary));
  // RocksDB would make it, too, and log an error because it was not there.
  RETURN_IF_ERROR(MakeDirectory(temporary));
  const absl::StatusOr<CheckpointMetadata> metadata = WriteRows(temporary.string(), model);
  absl::Status written = metadata.status();
  if (written.ok()) written = VerifyRows(temporary.string(), *metadata, model);
  if (!written.ok()) {
    RemoveAll(temporary).IgnoreError();
    return InCheckpoint(target, written);
  }
  DSLIDE_FAILPOINT("shard.checkpoint.written");
  CheckpointSize size;
  for (const CheckpointTable& table : metadata->tables) size.rows += table.present;
  size.bytes = DirectoryBytes(temporary);
  RETURN_IF_ERROR(Replace(temporary, target));
  RETURN_IF_ERROR(SyncDirectory(data_dir_));
  return size;
}

absl::StatusOr<std::unique_ptr<ShardModel>> CheckpointStore::Load(ShardCore& core,
                                                                  const std::string& name,
                                                                  const std::string& checkpoint) {
  const fs::path path = fs::path(data_dir_) / name / checkpoint;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                            absl::StrCat("there is no checkpoint \"", checkpoint, "\" of model \"",
                                         name, "\" in ", data_dir_));
  }
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<ShardModel>> {
    ASSIGN_OR_RETURN(const CheckpointMetadata metadata, ReadCheckpointMetadata(path.string()));
    if (metadata.spec.name != name) {
      return absl::DataLossError(
          absl::StrCat("it is of model \"", metadata.spec.name, "\": directories were swapped"));
    }
    const ShardModel* const present = core.FindModel(name);
    RETURN_IF_ERROR(CheckFit(core, metadata, present));
    CreateModelCommand create{.spec = metadata.spec,
                              .shard = metadata.shard,
                              .slot_maps = metadata.slot_maps,
                              .topology_version = 0};
    if (present != nullptr) {
      create.spec = present->spec();
      create.topology_version = present->topology_version();
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model,
                     core.NewModel(create, RecordMemory(metadata)));
    RETURN_IF_ERROR(ReadRows({path.string()}, metadata, *model));
    RETURN_IF_ERROR(CheckDigests(*model, metadata));
    return model;
  };
  absl::StatusOr<std::unique_ptr<ShardModel>> model = load();
  if (!model.ok()) return InCheckpoint(path, model.status());
  return model;
}

bool CheckpointStore::Exists(const std::string& data_dir, const std::string& model,
                             const std::string& checkpoint) {
  const fs::path directory = fs::path(data_dir) / model;
  std::error_code error;
  return fs::is_directory(directory / checkpoint, error) ||
         fs::is_directory(directory / absl::StrCat(kReplaced, checkpoint), error);
}

absl::StatusOr<std::vector<std::string>> CheckpointStore::ModelsWith(
    const std::string& checkpoint) const {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(data_dir_, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && wire::CheckName("model", name).ok() &&
        fs::is_directory(entry.path() / checkpoint)) {
      models.push_back(name);
    }
  }
  if (error) return FileError("list", data_dir_, error);
  std::sort(models.begin(), models.end());
  return models;
}

absl::Status CheckpointStore::Remove(const std::string& model, const std::string& checkpoint) {
  const fs::path path = fs::path(data_dir_) / model / checkpoint;
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  // Half a checkpoint must not be found under its name.
  const fs::path doomed = path.parent_path() / absl::StrCat(kTemporary, checkpoint);
  RETURN_IF_ERROR(RemoveAll(doomed));
  RETURN_IF_ERROR(Rename(path, doomed));
  RETURN_IF_ERROR(SyncDirectory(path.parent_path()));
  return RemoveAll(doomed);
}

}  // namespace dslide::shard
