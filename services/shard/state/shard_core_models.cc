// Models come, grow and go.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/spec/model_growth.h"
#include "core/spec/spec_difference.h"
#include "services/shard/state/refusal.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

absl::StatusOr<std::unique_ptr<ShardModel>> ShardCore::NewModel(const CreateModelCommand& command,
                                                                int64_t record_bytes) {
  ForgetKept();
  const int64_t left = options_.memory_bytes - memory_bytes();
  if (record_bytes > left) {
    return OverloadStatus(
        reason::kOutOfMemory,
        absl::StrCat("the records of model \"", command.spec.name, "\" need ", record_bytes,
                     " bytes on this shard, ", std::max<int64_t>(0, left),
                     " are left of --memory-budget: add shards or memory"),
        absl::Seconds(1));
  }
  return ShardModel::Create(command, options_.models, left - record_bytes, options_.parallelism,
                            options_.stages);
}

absl::Status ShardCore::GrowModel(ShardModel& present, const CreateModelCommand& command) {
  // Jobs may have other settings than the model was made with.
  const ModelSpec spec = AsGrown(command.spec, present.spec());
  const int64_t left = options_.memory_bytes - memory_bytes();
  if (command.dry_run) return present.CheckGrowth(spec, left).status();
  ForgetKept();
  ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> grown, present.Grown(spec, left));
  for (size_t i = 0; i < present.tables().size(); ++i) {
    contexts_.MoveRows(spec.name, spec.tables[i].name, present.tables()[i].stored().rows(),
                       grown->tables()[i].stored().rows());
  }
  dropped_ += present.counters();
  models_[spec.name] = std::move(grown);
  return absl::OkStatus();
}

absl::StatusOr<bool> ShardCore::CreateModel(CreateModelCommand& command) {
  if (shard_.value() >= 0 && command.shard != shard_) {
    return Refuse(reason::kWrongShard,
                  absl::StrCat("the model part is for shard ", command.shard.value(),
                               ", this is shard ", shard_.value()));
  }
  const std::string& name = command.spec.name;
  if (ShardModel* const present = FindModel(name); present != nullptr) {
    const bool grows = command.grow && IsGrownFrom(present->spec(), command.spec);
    if (const auto difference = FirstDifference(present->spec(), command.spec);
        difference.has_value() && !grows) {
      return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
                              absl::StrCat("a different model \"", name, "\" is here already: its ",
                                           Describe(*difference), "; drop it or use another name"));
    }
    if (command.slot_maps != present->slot_maps() || command.shard != present->shard()) {
      return StatusWithReason(
          absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
          absl::StrCat("model \"", name, "\" is here with another slot map or shard number (",
                       present->shard().value(), "): its rows would have to move between shards"));
    }
    if (grows) RETURN_IF_ERROR(GrowModel(*present, command));
    if (command.dry_run) return false;
    if (command.grow) FindModel(name)->SetRetiredLabels(command.spec.retired_labels);
    FindModel(name)->set_topology_version(command.topology_version);
    topology_version_ = std::max(topology_version_, command.topology_version);
    return false;
  }
  if (command.dry_run) return LookUp(name, /*topology_version=*/0).status();
  if (static_cast<int64_t>(models_.size()) >= options_.max_models) {
    return OverloadStatus(
        reason::kOutOfMemory,
        absl::StrCat("this shard has ", models_.size(), " models already: drop one"),
        absl::Seconds(1));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model, NewModel(command));
  InstallModel(std::move(model));
  return true;
}

Answer ShardCore::Run(CreateModelCommand& command) {
  const absl::StatusOr<bool> created = CreateModel(command);
  if (!created.ok()) return Error(created.status());
  return Ok(CreateModelReply{.created = *created});
}

Answer ShardCore::Run(DropModelCommand& command) {
  const absl::StatusOr<ShardModel*> model = LookUp(command.model, /*topology_version=*/0);
  if (!model.ok()) return Error(model.status());
  contexts_.DropModel(command.model);
  dropped_ += (*model)->counters();
  models_.erase(command.model);
  return Ok(DropModelReply{});
}

}  // namespace dslide::shard
