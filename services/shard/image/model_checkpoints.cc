#include "services/shard/image/model_checkpoints.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_growth.h"
#include "core/spec/spec_difference.h"
#include "core/system/failpoint.h"
#include "services/shard/image/image_label.h"
#include "services/shard/storage/storage_database.h"
#include "services/shard/storage/storage_rows.h"

namespace dslide::shard {
namespace {

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
  // It may be of before the model grew.
  auto difference = FirstDifference(present->spec(), metadata.spec);
  if (!difference.has_value()) return absl::OkStatus();
  std::swap(difference->known, difference->other);
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
      absl::StrCat("the checkpoint is of another model than the \"", present->spec().name,
                   "\" that is here: its ", Describe(*difference),
                   IsGrownFrom(present->spec(), metadata.spec) ? "; dslide model grow first" : ""));
}

// The rows of the checkpoint; those that came later begin anew.
absl::StatusOr<std::unique_ptr<ShardModel>> WithPresentRows(ShardCore& core,
                                                            const ShardModel* present,
                                                            std::unique_ptr<ShardModel> model) {
  if (present == nullptr || !IsGrownFrom(model->spec(), present->spec())) return model;
  return model->Grown(present->spec(),
                      core.limits().memory_bytes - core.memory_bytes() - model->memory_bytes());
}

absl::Status InCheckpoint(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return StatusWithReason(
      status.code(), ReasonOf(status),
      absl::StrCat("checkpoint ", path, ": ", status.message(),
                   absl::IsDataLoss(status) ? "; restore this directory from a copy, or remove it "
                                              "to give the rows up"
                                            : ""));
}

}  // namespace

absl::StatusOr<ImageSize> ModelCheckpoints::Write(const ShardModel& model,
                                                  const std::string& checkpoint) {
  const std::string label = ModelLabel({.model = model.spec().name, .checkpoint = checkpoint});
  ImageParts parts;
  // Lives for the call.
  parts.models.push_back(
      {.model = {std::shared_ptr<void>(), &model}, .metadata = DescribeForCheckpoint(model)});
  ImageSize size;
  const absl::Status written = store_->Publish(label, [&](const std::string& directory) {
    const auto image = WriteImageOf(directory, parts,
                                    [&](size_t) { return std::make_unique<StoredRecords>(model); });
    DSLIDE_FAILPOINT("shard.checkpoint.written");
    size = image.value_or(ImageSize());
    return image.status();
  });
  if (!written.ok()) return InCheckpoint(store_->PathOf(label), written);
  DSLIDE_FAILPOINT("shard.checkpoint.durable");
  return size;
}

absl::StatusOr<std::unique_ptr<ShardModel>> ModelCheckpoints::Load(
    ShardCore& core, const std::string& name, const std::string& checkpoint) const {
  const std::string label = ModelLabel({.model = name, .checkpoint = checkpoint});
  if (!store_->Has(label)) {
    return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                            absl::StrCat("there is no checkpoint \"", checkpoint, "\" of model \"",
                                         name, "\": no directory ", store_->PathOf(label)));
  }
  const std::string rows = ModelPath(store_->PathOf(label), 0);
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<ShardModel>> {
    SummedFiles files(store_->PathOf(label));
    RETURN_IF_ERROR(ReadImageHead(files).status());
    ASSIGN_OR_RETURN(RowDatabaseReader reader, RowDatabaseReader::Open({rows}, &files));
    ASSIGN_OR_RETURN(const CheckpointMetadata metadata, ReadCheckpointMetadata(reader));
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
      // The settings of jobs are those of here.
      if (!IsGrownFrom(metadata.spec, present->spec())) create.spec = present->spec();
      create.topology_version = present->topology_version();
      create.spec.retired_labels = metadata.spec.retired_labels;  // whose rows it lacks
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model,
                     core.NewModel(create, RecordMemory(metadata)));
    RETURN_IF_ERROR(ReadRows(reader, metadata, *model, nullptr, core.loading()));
    RETURN_IF_ERROR(CheckDigests(*model, metadata));
    RETURN_IF_ERROR(CheckFilesRead(files).status());
    if (present != nullptr) model->SetRetiredLabels(present->spec().retired_labels);
    return WithPresentRows(core, present, std::move(model));
  };
  absl::StatusOr<std::unique_ptr<ShardModel>> model = load();
  if (!model.ok()) return InCheckpoint(store_->PathOf(label), model.status());
  return model;
}

bool ModelCheckpoints::Exists(const std::string& data_dir, const std::string& model,
                              const std::string& checkpoint) {
  const std::vector<std::string> labels = ImageStore::LabelsIn(ImageStore::DirectoryIn(data_dir));
  return std::binary_search(labels.begin(), labels.end(),
                            ModelLabel({.model = model, .checkpoint = checkpoint}));
}

std::vector<std::string> ModelCheckpoints::ModelsWith(const std::string& checkpoint) const {
  std::vector<std::string> models;
  for (const std::string& label : store_->Labels()) {
    std::optional<ModelRows> rows = ModelRowsOf(label);
    if (rows.has_value() && rows->checkpoint == checkpoint) {
      models.push_back(std::move(rows->model));
    }
  }
  std::sort(models.begin(), models.end());
  return models;
}

absl::Status ModelCheckpoints::RemoveOthers(const std::string& model, absl::string_view prefix,
                                            absl::Span<const std::string> kept) {
  for (const std::string& label : store_->Labels()) {
    const std::optional<ModelRows> rows = ModelRowsOf(label);
    if (!rows.has_value() || rows->model != model) continue;
    if (!absl::StartsWith(rows->checkpoint, prefix)) continue;
    if (std::find(kept.begin(), kept.end(), rows->checkpoint) != kept.end()) continue;
    RETURN_IF_ERROR(store_->Remove(label));
  }
  return absl::OkStatus();
}

absl::Status ModelCheckpoints::Remove(const std::string& model, const std::string& checkpoint) {
  return store_->Remove(ModelLabel({.model = model, .checkpoint = checkpoint}));
}

}  // namespace dslide::shard
