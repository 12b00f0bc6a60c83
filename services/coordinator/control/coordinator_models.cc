// The part of the Coordinator that asks shards: models and checkpoints.

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/log.h"
#include "services/coordinator/control/coordinator.h"
#include "services/coordinator/membership/fan_out.h"
#include "services/coordinator/membership/names.h"
#include "services/coordinator/work/work_lock.h"

namespace dslide::coordinator {
namespace {

constexpr absl::Duration kDropTimeout = absl::Seconds(10);
constexpr absl::Duration kSyncTimeout = absl::Minutes(2);
constexpr absl::Duration kSyncPause = absl::Milliseconds(200);
// Each try reads a whole checkpoint, and only a person can change what it finds.
constexpr absl::Duration kRollbackPause = absl::Seconds(10);

}  // namespace

absl::StatusOr<CreateModelCommand> Coordinator::CommandFor(const ModelSpec& spec,
                                                           const ClusterMap& map, ShardId shard) {
  CreateModelCommand command{
      .spec = spec, .shard = shard, .slot_maps = {}, .topology_version = map.topology_version};
  std::set<int64_t> sizes;
  for (const TableSpec& table : spec.tables) sizes.insert(table.num_slots);
  for (const int64_t num_slots : sizes) {
    ASSIGN_OR_RETURN(SlotMap slots, map.Slots(num_slots));
    command.slot_maps.push_back(std::move(slots));
  }
  return command;
}

absl::StatusOr<bool> Coordinator::RegisterModel(const ModelSpec& spec, absl::Duration timeout) {
  const absl::MutexLock models_lock(&models_mu_);
  bool is_new = false;
  ClusterMap map;
  {
    const absl::MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(is_new, catalog_.Check(spec));
    ASSIGN_OR_RETURN(map, membership_.Map());
  }
  // A known model is sent again too: creating an equal one changes nothing, and when this returns
  // OK every shard has it for certain.
  const size_t count = map.shards.size();
  std::vector<absl::Status> results(count);
  std::vector<char> created(count, 0);  // not vector<bool>: threads write neighbours
  ASSIGN_OR_RETURN(CreateModelCommand command, CommandFor(spec, map, ShardId(0)));
  FanOut(count, [&](size_t i) {
    CreateModelCommand own = command;
    own.shard = map.shards[i].shard;
    const auto answer = shards_->CreateModel(map.shards[i].address, own, timeout);
    results[i] = answer.status();
    created[i] = answer.ok() && *answer ? 1 : 0;
  });
  const absl::Status combined =
      CombineFailures(absl::StrCat("creating model \"", spec.name, "\""), map.shards, results);
  if (!combined.ok()) {
    if (is_new) {
      FanOut(count, [&](size_t i) {
        if (created[i] == 0) return;
        shards_->DropModel(map.shards[i].address, spec.name, kDropTimeout).IgnoreError();
      });
    }
    LogWarning("model not registered", {{"model", spec.name}, {"error", combined.ToString()}});
    return combined;
  }
  const absl::MutexLock lock(&mu_);
  if (!is_new) return false;
  if (store_ != nullptr) RETURN_IF_ERROR(store_->PutModel(spec));
  RETURN_IF_ERROR(catalog_.Add(spec).status());
  LogInfo("model registered", {{"model", spec.name}, {"shards", count}});
  return true;
}

std::vector<ModelSpec> Coordinator::ListModels() const {
  const absl::MutexLock lock(&mu_);
  return catalog_.List();
}

absl::Status Coordinator::UnregisterModel(const std::string& model, absl::Duration timeout) {
  RETURN_IF_ERROR(CheckName("model", model));
  const absl::MutexLock models_lock(&models_mu_);
  ClusterMap map;
  {
    const absl::MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(map, membership_.Map());
  }
  std::vector<absl::Status> results(map.shards.size());
  FanOut(results.size(),
         [&](size_t i) { results[i] = shards_->DropModel(map.shards[i].address, model, timeout); });
  bool anywhere = false;
  for (absl::Status& result : results) {
    anywhere = anywhere || result.ok();
    if (absl::IsNotFound(result)) result = absl::OkStatus();  // gone is what was asked for
  }
  RETURN_IF_ERROR(
      CombineFailures(absl::StrCat("dropping model \"", model, "\""), map.shards, results));
  const absl::MutexLock lock(&mu_);
  const bool known = catalog_.Find(model) != nullptr;
  if (!known) return anywhere ? absl::OkStatus() : UnknownModel(model);
  if (store_ != nullptr) RETURN_IF_ERROR(store_->DeleteModel(model));
  RETURN_IF_ERROR(catalog_.Remove(model));
  for (const std::string& job : std::deque<std::string>(job_order_)) {
    if (jobs_.at(job)->spec().model == model) ForgetJob(job);
  }
  LogInfo("model unregistered", {{"model", model}});
  return absl::OkStatus();
}

// --- Checkpoints
// -----------------------------------------------------------------------------------

absl::Status Coordinator::CheckCheckpoint(const std::string& model,
                                          const std::string& checkpoint) const {
  RETURN_IF_ERROR(CheckName("model", model));
  RETURN_IF_ERROR(CheckName("checkpoint", checkpoint));
  const absl::MutexLock lock(&mu_);
  return catalog_.Find(model) == nullptr ? UnknownModel(model) : absl::OkStatus();
}

absl::StatusOr<CheckpointSize> Coordinator::CreateCheckpoint(const std::string& model,
                                                             const std::string& checkpoint,
                                                             absl::Duration timeout,
                                                             WorkProgress& progress) {
  RETURN_IF_ERROR(CheckCheckpoint(model, checkpoint));
  const WorkLock checkpoint_lock(&checkpoint_mu_, progress);
  if (!checkpoint_lock.held()) return progress.Check();
  ASSIGN_OR_RETURN(const ClusterMap map, Map());
  std::vector<absl::Status> results(map.shards.size());
  std::vector<CheckpointSize> sizes(map.shards.size());
  progress.Begin("writing", map.shards.size());
  FanOut(results.size(), [&](size_t i) {
    auto size = shards_->WriteCheckpoint(map.shards[i].address, model, checkpoint, timeout);
    results[i] = size.status();
    if (size.ok()) sizes[i] = *size;
    progress.ShardDone();
  });
  RETURN_IF_ERROR(
      CombineFailures(absl::StrCat("writing checkpoint \"", checkpoint, "\" of \"", model, "\""),
                      map.shards, results));
  CheckpointSize sum;
  for (const CheckpointSize& size : sizes) {
    sum.rows += size.rows;
    sum.bytes += size.bytes;
  }
  LogInfo("checkpoint written",
          {{"model", model}, {"checkpoint", checkpoint}, {"rows", sum.rows}, {"bytes", sum.bytes}});
  return sum;
}

absl::StatusOr<int64_t> Coordinator::RestoreCheckpoint(const std::string& model,
                                                       const std::string& checkpoint,
                                                       absl::Duration timeout,
                                                       WorkProgress& progress) {
  RETURN_IF_ERROR(CheckCheckpoint(model, checkpoint));
  const WorkLock checkpoint_lock(&checkpoint_mu_, progress);
  if (!checkpoint_lock.held()) return progress.Check();
  ASSIGN_OR_RETURN(const ClusterMap map, Map());
  std::vector<absl::Status> results(map.shards.size());
  std::vector<int64_t> rows(map.shards.size());
  progress.Begin("restoring", map.shards.size());
  FanOut(results.size(), [&](size_t i) {
    const auto restored =
        shards_->LoadCheckpoint(map.shards[i].address, model, checkpoint, timeout);
    results[i] = restored.status();
    if (restored.ok()) rows[i] = *restored;
    progress.ShardDone();
  });
  RETURN_IF_ERROR(
      CombineFailures(absl::StrCat("restoring checkpoint \"", checkpoint, "\" of \"", model, "\""),
                      map.shards, results));
  int64_t sum = 0;
  for (const int64_t restored : rows) sum += restored;
  LogInfo("checkpoint restored", {{"model", model}, {"checkpoint", checkpoint}, {"rows", sum}});
  return sum;
}

// --- Models of shards that come back
// ---------------------------------------------------------------

bool Coordinator::SyncWanted() const {
  return stopped_ || ((!to_sync_.empty() || rollback_requested_) && membership_.Map().ok());
}

void Coordinator::SyncLoop() {
  while (true) {
    std::map<ShardId, uint64_t> shards;
    {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &Coordinator::SyncWanted));
      if (stopped_) return;
      shards = to_sync_;
    }
    bool all_done = true;
    absl::Duration pause = kSyncPause;
    if (const absl::Status status = RollbackIfRequested(); !status.ok()) {
      // Fresh rows would be worse than none.
      LogError(
          "a shard came back without its rows, or a restore was not finished, and the cluster "
          "checkpoint cannot be restored: put back the shard's data directory from a copy, name an "
          "older one with dslide checkpoint restore, or remove the coordinator's checkpoints to "
          "begin with fresh rows",
          {{"error", status.message()}});
      shards.clear();
      all_done = false;
      pause = kRollbackPause;
    }
    for (const auto& [shard, generation] : shards) {
      const absl::Status status = SyncShard(shard, generation);
      const absl::MutexLock lock(&mu_);
      if (status.ok()) {
        const auto entry = to_sync_.find(shard);
        if (entry != to_sync_.end() && entry->second == generation) to_sync_.erase(entry);
      } else {
        all_done = false;
        LogWarning("a shard lacks models; trying again",
                   {{"shard", shard.value()}, {"error", status.ToString()}});
      }
    }
    if (all_done) continue;
    const absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&stopped_), pause);
  }
}

absl::Status Coordinator::RollbackIfRequested() {
  {
    const absl::MutexLock lock(&mu_);
    if (!rollback_requested_) return absl::OkStatus();
  }
  // Without one, what came back empty stays so: the loss is reported where the models are made.
  const absl::StatusOr<std::vector<Manifest>> taken = ListClusterCheckpoints();
  if (taken.ok() && taken->empty()) {
    const absl::MutexLock lock(&mu_);
    // Shards without rows let their clients in when the mark is gone.
    RETURN_IF_ERROR(restore_mark_->Clear());
    rollback_requested_ = false;
    return absl::OkStatus();
  }
  WorkProgress progress;  // nobody looks at it
  return RestoreClusterCheckpoint(restore_mark_->checkpoint_id().value_or(RestoreMark::kNewest),
                                  progress)
      .status();
}

absl::Status Coordinator::SyncShard(ShardId shard, uint64_t generation) {
  const absl::MutexLock models_lock(&models_mu_);
  ClusterMap map;
  std::vector<ModelSpec> models;
  {
    const absl::MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(map, membership_.Map());
    models = catalog_.List();
  }
  const ShardView& view = map.shards[static_cast<size_t>(shard.value())];
  if (view.generation != generation) return absl::OkStatus();
  for (const ModelSpec& spec : models) {
    ASSIGN_OR_RETURN(const CreateModelCommand command, CommandFor(spec, map, shard));
    ASSIGN_OR_RETURN(const bool created, shards_->CreateModel(view.address, command, kSyncTimeout));
    if (!created) continue;
    recreated_models_.Increment();
    LogWarning("a shard came back without a model; it starts with fresh rows there",
               {{"shard", shard.value()}, {"model", spec.name}});
  }
  return absl::OkStatus();
}

}  // namespace dslide::coordinator
