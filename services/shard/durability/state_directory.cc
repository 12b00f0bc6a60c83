#include "services/shard/durability/state_directory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "services/common/files/data_dir_error.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/shard_image.h"

namespace dslide::shard {

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(
    StateDirectoryOptions options, Metrics& metrics, std::unique_ptr<ShardCore>& core) {
  std::unique_ptr<StateDirectory> directory(new StateDirectory(std::move(options)));
  if (const absl::Status loaded = directory->Load(metrics, core); !loaded.ok()) {
    return directory->Explained(loaded);
  }
  return directory;
}

absl::Status StateDirectory::Explained(const absl::Status& status) const {
  return DataDirError(options_.path.empty() ? options_.rows_from : options_.path, status);
}

absl::Status StateDirectory::LoadRowsFrom(ShardCore& core) {
  // Of a directory that nobody has open, or that is replaced as a whole: nothing is half-done
  // there.
  ImageStore images(ImageStore::DirectoryIn(options_.rows_from));
  RETURN_IF_ERROR(ImageStore::CheckListable(ImageStore::DirectoryIn(options_.rows_from)));
  return LoadCheckpoints(ModelCheckpoints(&images), core);
}

absl::Status StateDirectory::Load(Metrics& metrics, std::unique_ptr<ShardCore>& core) {
  if (!options_.rows_from.empty()) RETURN_IF_ERROR(LoadRowsFrom(*core));
  if (options_.path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(lock_, DirectoryLock::Take(options_.path));
  ASSIGN_OR_RETURN(images_, ImageStore::Open(ImageStore::DirectoryIn(options_.path)));
  checkpoints_ = std::make_unique<ModelCheckpoints>(images_.get());
  reserve_ = DiskReserve::Open(options_.path, {.bytes = options_.disk_reserve_bytes});
  reserve_->AddMetrics(metrics);
  if (LogDirectory::Exists(options_.path)) return RestoreLogged(core);
  if (options_.rows_from.empty()) {
    RETURN_IF_ERROR(LoadCheckpoints(*checkpoints_, *core));
    RETURN_IF_ERROR(TakeStopState(*core));
  }
  if (!logs()) return absl::OkStatus();
  ASSIGN_OR_RETURN(durable_, LogDirectory::Create(options_.path, DurableOptions(), *core));
  return absl::OkStatus();
}

LogDirectoryOptions StateDirectory::DurableOptions() const {
  return {.durability = options_.durability, .reserve = reserve_.get(), .clock = options_.clock};
}

absl::Status StateDirectory::TakeStopState(ShardCore& core) {
  if (!images_->Has(kStoppedLabel)) {
    stale_ = true;
    return absl::OkStatus();
  }
  const absl::Status loaded = LoadImage(images_->PathOf(kStoppedLabel), core).status();
  if (absl::IsDataLoss(loaded)) {
    return absl::DataLossError(
        absl::StrCat(loaded.message(), "; without ", images_->PathOf(kStoppedLabel),
                     " the shard starts with the rows alone, and knows no client"));
  }
  RETURN_IF_ERROR(loaded);
  DSLIDE_FAILPOINT("shard.stop.taken");
  core.SetLimits(options_.core());
  resumed_ = true;
  // From here on the rows may change: a crash would make it a lie.
  RETURN_IF_ERROR(images_->Remove(kStoppedLabel));
  DSLIDE_FAILPOINT("shard.stop.removed");
  return absl::OkStatus();
}

absl::Status StateDirectory::LoadCheckpoints(const ModelCheckpoints& checkpoints, ShardCore& core) {
  for (const std::string& name : checkpoints.ModelsWith(kLatestCheckpoint)) {
    const absl::Duration start = options_.clock->Now();
    ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model,
                     checkpoints.Load(core, name, kLatestCheckpoint));
    RETURN_IF_ERROR(RecordModel(*model));
    LogInfo("model loaded", {{"model", name},
                             {"shard", shard_},
                             {"bytes", model->memory_bytes()},
                             {"duration", absl::FormatDuration(options_.clock->Now() - start)}});
    core.InstallModel(std::move(model));
  }
  return absl::OkStatus();
}

absl::Status StateDirectory::RecordModel(const ShardModel& model) {
  const int32_t shard = model.shard().value();
  const int32_t wanted = shard_ >= 0 ? shard_ : options_.shard_id;
  if (wanted >= 0 && shard != wanted) {
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSlotsDiffer,
        absl::StrCat("model \"", model.spec().name, "\" in it is of shard ", shard,
                     ", this is shard ", wanted, ": each shard has a data directory of its own"));
  }
  shard_ = shard;
  models_.push_back(model.spec());
  return absl::OkStatus();
}

absl::Status StateDirectory::RestoreLogged(std::unique_ptr<ShardCore>& core) {
  const ShardCoreOptions wanted = options_.core();
  absl::StatusOr<std::unique_ptr<DurableState>> restored = LogDirectory::Restore(
      options_.path, DurableOptions(), [&wanted] { return std::make_unique<ShardCore>(wanted); },
      &core);
  if (absl::IsDataLoss(restored.status())) {
    return absl::DataLossError(absl::StrCat(
        "the command log or its images are damaged: ", restored.status().message(),
        "; restore the directory from a copy, or remove its command_log to go back to the last "
        "checkpoint"));
  }
  RETURN_IF_ERROR(restored.status());
  durable_ = *std::move(restored);
  for (const auto& [name, model] : core->models()) RETURN_IF_ERROR(RecordModel(*model));
  if (!logs()) return TakeOverLogged(core);
  resumed_ = true;
  return absl::OkStatus();
}

absl::Status StateDirectory::TakeOverLogged(std::unique_ptr<ShardCore>& core) {
  const std::vector<std::string> before = checkpoints_->ModelsWith(kLatestCheckpoint);
  for (const auto& [name, model] : core->models()) {
    RETURN_IF_ERROR(checkpoints_->Write(*model, kLatestCheckpoint).status());
  }
  for (const std::string& name : before) {
    if (core->FindModel(name) == nullptr) {
      RETURN_IF_ERROR(checkpoints_->Remove(name, kLatestCheckpoint));
    }
  }
  // Only now: until here, another start would find everything as it was.
  durable_ = nullptr;
  RETURN_IF_ERROR(LogDirectory::Remove(options_.path));
  LogWarning(
      "durability is checkpoint: the state of the command log was written as checkpoints, "
      "and the log removed",
      {{"data_dir", options_.path}});
  // The clients' numbers are gone, as after every start in this mode.
  core = std::make_unique<ShardCore>(options_.core());
  models_.clear();
  return LoadCheckpoints(*checkpoints_, *core);
}

absl::Status StateDirectory::WriteAtStop(ShardCore& core) {
  if (!options_.write_latest || options_.path.empty()) return absl::OkStatus();
  if (durable_ == nullptr) {
    RETURN_IF_ERROR(WriteLatest(core));
    DSLIDE_FAILPOINT("shard.stop.rows_written");
    return images_->Publish(kStoppedLabel, [&](const std::string& directory) {
      return WriteImageOf(directory, PartsWithoutRows(core), nullptr).status();
    });
  }
  absl::Status taken = durable_->TakeImage(core);
  if (!taken.ok()) LogError("cannot write the final image", {{"error", taken.message()}});
  return taken;
}

absl::Status StateDirectory::WriteLatest(const ShardCore& core) {
  absl::Status result;
  for (const auto& [name, model] : core.models()) {
    const absl::Duration start = options_.clock->Now();
    const absl::StatusOr<ImageSize> size = checkpoints_->Write(*model, kLatestCheckpoint);
    if (!size.ok()) {
      LogError("cannot write the final checkpoint",
               {{"model", name}, {"error", size.status().message()}});
      result.Update(size.status());
      continue;
    }
    LogInfo("final checkpoint written",
            {{"model", name},
             {"rows", size->rows},
             {"bytes", size->bytes},
             {"duration", absl::FormatDuration(options_.clock->Now() - start)}});
  }
  return result;
}

}  // namespace dslide::shard
