#include "services/coordinator/control/model_rollout.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/log.h"
#include "services/coordinator/membership/names.h"

namespace dslide::coordinator {
namespace {

constexpr absl::Duration kDropTimeout = absl::Seconds(10);

// The command that creates a model on one shard of the cluster.
absl::StatusOr<CreateModelCommand> CommandFor(const ModelSpec& spec, const ClusterMap& map,
                                              ShardId shard) {
  CreateModelCommand command{
      .spec = spec, .shard = shard, .slot_maps = {}, .topology_version = map.topology_version};
  std::set<int64_t> sizes;
  for (const TableSpec& table : spec.tables) sizes.insert(table.num_slots);
  for (const int64_t num_slots : sizes) {
    ASSIGN_OR_RETURN(SlotMap slots, SlotMap::Deal(num_slots, CapacityWeights(map.shards)));
    command.slot_maps.push_back(std::move(slots));
  }
  return command;
}

}  // namespace

ModelRollout::ModelRollout(const ModelRolloutOptions& options, const Cluster& cluster,
                           Metrics* metrics)
    : options_(options),
      registry_(cluster.registry),
      jobs_(cluster.jobs),
      assets_(cluster.assets),
      shards_(cluster.shards),
      recreated_models_(metrics->AddCounter(
          "dslide_coordinator_models_recreated_total",
          "Models made afresh on a shard that came back without them; their rows there were "
          "lost.")) {}

absl::StatusOr<bool> ModelRollout::Create(const ModelSpec& spec, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const bool is_new, registry_->CheckModel(spec));
  ASSIGN_OR_RETURN(const ClusterMap map, registry_->FullMap());
  // A known model is sent again too: creating an equal one changes nothing, and when this returns
  // OK every shard has it for certain.
  const size_t count = map.shards.size();
  std::vector<absl::Status> results(count);
  std::vector<char> created(count, 0);  // not vector<bool>: threads write neighbours
  ASSIGN_OR_RETURN(CreateModelCommand command, CommandFor(spec, map, ShardId(0)));
  // A shard that lost a known model leaves out its labels, whatever the trainer knows of them.
  for (const ModelSpec& known : registry_->ListModels()) {
    if (known.name == spec.name) command.spec.retired_labels = known.retired_labels;
  }
  FanOut(
      count,
      [&](size_t i) {
        CreateModelCommand own = command;
        own.shard = map.shards[i].shard;
        const auto answer = shards_->CreateModel(map.shards[i].address, own, timeout);
        results[i] = answer.status();
        created[i] = answer.ok() && *answer ? 1 : 0;
      },
      options_.calls_at_once);
  const absl::Status combined =
      CombineFailures(absl::StrCat("creating model \"", spec.name, "\""), map.shards, results);
  if (!combined.ok()) {
    if (is_new) {
      FanOut(
          count,
          [&](size_t i) {
            if (created[i] == 0) return;
            shards_->DropModel(map.shards[i].address, spec.name, kDropTimeout).IgnoreError();
          },
          options_.calls_at_once);
    }
    LogWarning("model not registered", {{"model", spec.name}, {"error", combined.ToString()}});
    return combined;
  }
  if (!is_new) return false;
  RETURN_IF_ERROR(registry_->AddModel(spec));
  LogInfo("model registered", {{"model", spec.name}, {"shards", count}});
  return true;
}

absl::Status ModelRollout::ChangeOn(const ClusterMap& map, const CreateModelCommand& command,
                                    absl::string_view what, absl::Duration timeout) {
  std::vector<absl::Status> results(map.shards.size());
  FanOut(
      results.size(),
      [&](size_t i) {
        CreateModelCommand own = command;
        own.shard = map.shards[i].shard;
        results[i] = shards_->CreateModel(map.shards[i].address, own, timeout).status();
        if (results[i].ok() && !command.dry_run) {
          registry_->SetSynced(map.shards[i].shard, map.shards[i].generation);
        }
      },
      options_.calls_at_once);
  return CombineFailures(absl::StrCat(what, " model \"", command.spec.name, "\""), map.shards,
                         results);
}

absl::StatusOr<ModelGrowth> ModelRollout::Grow(const GrowthRequest& request,
                                               absl::Duration timeout) {
  RETURN_IF_ERROR(CheckName("model", request.model));
  ModelGrowth growth;
  ASSIGN_OR_RETURN(growth.spec, registry_->GrownModel(request.model, request.growth));
  for (const ModelSpec& known : registry_->ListModels()) {
    if (known.name == request.model) growth.rows_before = SizeBefore(known, request.growth);
  }
  ASSIGN_OR_RETURN(const ClusterMap map, registry_->Map());
  ASSIGN_OR_RETURN(CreateModelCommand command, CommandFor(growth.spec, map, ShardId(0)));
  command.grow = true;
  command.dry_run = true;
  RETURN_IF_ERROR(ChangeOn(map, command, "growing", timeout));
  if (request.dry_run) return growth;
  // First: from here on a shard that was away grows when it comes back.
  RETURN_IF_ERROR(registry_->PutChangedModel(growth.spec, map));
  command.dry_run = false;
  RETURN_IF_ERROR(ChangeOn(map, command, "growing", timeout));
  LogInfo("model grown", {{"model", request.model},
                          {"table", request.growth.table},
                          {"rows", request.growth.rows},
                          {"labels", request.growth.labels},
                          {"rows_before", growth.rows_before}});
  return growth;
}

absl::StatusOr<ModelRetirement> ModelRollout::RetireLabels(const RetirementRequest& request,
                                                           absl::Duration timeout) {
  RETURN_IF_ERROR(CheckName("model", request.model));
  ModelRetirement retirement;
  for (const ModelSpec& known : registry_->ListModels()) {
    if (known.name != request.model) continue;
    ASSIGN_OR_RETURN(const RetiredLabels before, RetiredLabels::Parse(known.retired_labels));
    retirement.retired_before = before.size();
  }
  ASSIGN_OR_RETURN(retirement.spec, registry_->RetiredModel(request));
  ASSIGN_OR_RETURN(const RetiredLabels after, RetiredLabels::Parse(retirement.spec.retired_labels));
  retirement.retired = after.size();
  if (request.dry_run) return retirement;
  ASSIGN_OR_RETURN(const ClusterMap map, registry_->Map());
  ASSIGN_OR_RETURN(CreateModelCommand command, CommandFor(retirement.spec, map, ShardId(0)));
  command.grow = true;
  // First: from here on a shard that was away is told when it comes back.
  RETURN_IF_ERROR(registry_->PutChangedModel(retirement.spec, map));
  RETURN_IF_ERROR(ChangeOn(map, command, "retiring labels of", timeout));
  LogInfo("labels retired", {{"model", request.model},
                             {"retired", retirement.retired},
                             {"retired_before", retirement.retired_before}});
  return retirement;
}

absl::Status ModelRollout::Drop(const std::string& model, absl::Duration timeout) {
  RETURN_IF_ERROR(CheckName("model", model));
  ASSIGN_OR_RETURN(const ClusterMap map, registry_->FullMap());
  std::vector<absl::Status> results(map.shards.size());
  FanOut(
      results.size(),
      [&](size_t i) { results[i] = shards_->DropModel(map.shards[i].address, model, timeout); },
      options_.calls_at_once);
  bool anywhere = false;
  for (absl::Status& result : results) {
    anywhere = anywhere || result.ok();
    if (absl::IsNotFound(result)) result = absl::OkStatus();  // gone is what was asked for
  }
  RETURN_IF_ERROR(
      CombineFailures(absl::StrCat("dropping model \"", model, "\""), map.shards, results));
  if (absl::Status unknown = registry_->FindModel(model); !unknown.ok()) {
    return anywhere ? absl::OkStatus() : unknown;
  }
  // First: a job without its model would be there again after a crash between the two. And once
  // more, since until then somebody may have registered one.
  RETURN_IF_ERROR(jobs_->RemoveOf(model));
  // Before it, too: the next model of that name has its own.
  RETURN_IF_ERROR(assets_->Remove(model));
  RETURN_IF_ERROR(registry_->RemoveModel(model));
  RETURN_IF_ERROR(jobs_->RemoveOf(model));
  LogInfo("model unregistered", {{"model", model}});
  return absl::OkStatus();
}

absl::Status ModelRollout::Sync(ShardId shard, uint64_t generation) {
  ASSIGN_OR_RETURN(const ClusterMap map, registry_->FullMap());
  const ShardInfo& view = map.shards[static_cast<size_t>(shard.value())];
  if (view.generation != generation) return absl::OkStatus();
  for (const ModelSpec& spec : registry_->ListModels()) {
    ASSIGN_OR_RETURN(CreateModelCommand command, CommandFor(spec, map, shard));
    command.grow = true;
    ASSIGN_OR_RETURN(const bool created,
                     shards_->CreateModel(view.address, command, options_.sync_timeout));
    if (!created) continue;
    recreated_models_.Increment();
    LogWarning("a shard came back without a model; it starts with fresh rows there",
               {{"shard", shard.value()}, {"model", spec.name}});
  }
  return absl::OkStatus();
}

}  // namespace dslide::coordinator
