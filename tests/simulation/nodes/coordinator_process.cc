#include "tests/simulation/nodes/coordinator_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"
#include "tests/simulation/nodes/shard_host.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kSyncPause = absl::Milliseconds(20);
constexpr absl::Duration kRollbackPause = absl::Milliseconds(200);
constexpr absl::Duration kCallTimeout = absl::Milliseconds(150);

coordinator::MembershipOptions MembershipOf(const World& world) {
  return {.expected_shards = world.settings.shards, .heartbeat_interval = absl::Milliseconds(400)};
}

coordinator::JobSpec JobSpecOf() {
  return {
      .job = "work", .model = kModel, .samples_per_epoch = 7, .chunk_samples = 2, .max_epochs = 3};
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, NodePtr node, CoordinatorDisk& disk)
    : world_(world),
      node_(std::move(node)),
      disk_(disk),
      membership_(MembershipOf(world), &world.loop),
      shards_(world, node_),
      cuts_({.barrier_timeout = absl::Milliseconds(120),
             .write_timeout = absl::Seconds(1),
             .call_timeout = kCallTimeout,
             .keep = 2,
             .calls_at_once = 1,
             .sleep =
                 [this](absl::Duration pause) {
                   const absl::Duration end = world_.loop.Now() + pause;
                   world_.loop.RunUntil(end, [this] { return !node_->alive(); });
                 }},
            &shards_, &world.loop, OpenManifests()) {}

std::unique_ptr<Manifests> CoordinatorProcess::OpenManifests() {
  if (world_.settings.bug == Bug::kRestoreForgotten) disk_.manifests.restoring.reset();
  auto store = std::make_unique<Manifests>(
      node_, disk_.manifests,
      [this](const coordinator::Manifest& manifest, const std::function<void()>& write) {
        return CommitManifest(manifest, write);
      });
  mark_ = &store->restore_mark();
  return store;
}

void CoordinatorProcess::Start() {
  rollback_requested_ = mark_->checkpoint_id().has_value();
  restoring_ = mark_->begun();
  if (disk_.membership.has_value()) {
    const absl::Status restored = membership_.Restore(*disk_.membership, disk_.has_model);
    if (!restored.ok()) world_.trace.Violation(absl::StrCat("coordinator: ", restored.ToString()));
    for (const coordinator::ShardView& shard : membership_.Shards()) {
      unseen_.insert(shard.shard.value());
    }
  }
  SyncLoop();
  ScheduleLoop();
}

// --- Calls

absl::StatusOr<RegistrationAnswer> CoordinatorProcess::Register(int shard,
                                                                const std::string& instance_id,
                                                                bool has_model) {
  const coordinator::ShardRegistration request{.wanted = ShardId(shard),
                                               .address = ShardCalls::AddressOf(shard),
                                               .instance_id = instance_id,
                                               .admin_address = ""};
  ASSIGN_OR_RETURN(const coordinator::Ownership owner,
                   membership_.Register(request, disk_.has_model));
  if (owner.is_new && disk_.has_model && !has_model) {
    RETURN_IF_ERROR(mark_->Want());
    rollback_requested_ = true;
  }
  disk_.membership = membership_.Record();
  if (owner.is_new) to_sync_[shard] = owner.generation;
  if (!mark_->checkpoint_id().has_value()) world_.oracle.BeginsAfresh(shard);
  return RegistrationAnswer{.generation = owner.generation,
                            .rollback_pending = mark_->checkpoint_id().has_value()};
}

absl::StatusOr<bool> CoordinatorProcess::Heartbeat(int shard, uint64_t generation) {
  RETURN_IF_ERROR(membership_.Heartbeat(ShardId(shard), generation, 0, 0));
  if (unseen_.erase(shard) > 0) to_sync_.try_emplace(shard, generation);
  return mark_->checkpoint_id().has_value();
}

absl::Status CoordinatorProcess::Map() const {
  if (restoring_) return absl::UnavailableError("the cluster is being taken back");
  if (!disk_.has_model) return absl::UnavailableError("there is no model yet");
  return membership_.Map().status();
}

coordinator::Job& CoordinatorProcess::JobOf() {
  if (job_ == nullptr) {
    job_ = std::make_unique<coordinator::Job>(
        JobSpecOf(), coordinator::JobTiming{.lease_timeout = absl::Milliseconds(300)},
        disk_.lives * 1'000'000 + 1);
    world_.oracle.NewJob(*job_);
  }
  return *job_;
}

absl::StatusOr<coordinator::Work> CoordinatorProcess::Acquire(
    const coordinator::WorkRequest& request) {
  coordinator::Job& job = JobOf();
  absl::StatusOr<coordinator::Work> work = job.Acquire(request, world_.loop.Now());
  world_.oracle.Counted(job);
  return work;
}

// --- Checkpoints

bool CoordinatorProcess::CommitManifest(const coordinator::Manifest& manifest,
                                        const std::function<void()>& write) {
  constexpr double kKillRate = 0.02;
  const bool kill = world_.faults_on && world_.Chance(2 * kKillRate) && world_.coordinator->up();
  const bool before = kill && world_.Chance(0.5);
  const absl::Duration pause = world_.Between(absl::Milliseconds(50), absl::Milliseconds(400));
  if (before) {
    world_.trace.Note(Fault::kKillBeforeCommit);
    world_.coordinator->Kill(pause);
    return false;
  }
  write();
  world_.trace.Note("committed", {static_cast<int64_t>(manifest.checkpoint_id)});
  std::vector<const MemoryImage*> parts;
  for (const auto& host : world_.shards) {
    const auto part = host->disk().parts.parts.find(manifest.checkpoint_id);
    parts.push_back(part == host->disk().parts.parts.end() ? nullptr : part->second.get());
  }
  world_.oracle.Committed(manifest, parts);
  if (kill) {
    world_.trace.Note(Fault::kKillAfterCommit);
    world_.coordinator->Kill(pause);
  }
  return node_->alive();
}

std::shared_ptr<coordinator::WorkProgress> CoordinatorProcess::Progress() {
  constexpr double kCancelRate = 0.05;
  auto progress = std::make_shared<coordinator::WorkProgress>();
  if (!world_.faults_on || !world_.Chance(kCancelRate)) return progress;
  // A checkpoint takes some tens of milliseconds.
  const absl::Duration pause = world_.Between(absl::ZeroDuration(), absl::Milliseconds(60));
  Node::After(node_, pause, [this, progress] {
    world_.trace.Note(Fault::kOperatorCancel);
    progress->Cancel(absl::CancelledError("an operator has cancelled it"));
  });
  return progress;
}

absl::Status CoordinatorProcess::TakeCheckpoint() {
  if (cutting_ || changing_) return absl::AbortedError("another checkpoint, or a change of models");
  if (restoring_) return absl::UnavailableError("the cluster is being taken back");
  ASSIGN_OR_RETURN(const coordinator::ClusterMap map, membership_.Map());
  // As Coordinator::CheckNoRowsMissing().
  if (world_.settings.bug != Bug::kCutWithoutRows && (rollback_requested_ || !to_sync_.empty())) {
    return absl::UnavailableError("a shard came back without its rows, or its model");
  }
  cutting_ = changing_ = true;
  const std::shared_ptr<coordinator::WorkProgress> progress = Progress();
  const absl::StatusOr<coordinator::Manifest> taken = cuts_.Take(
      map,
      [this](coordinator::Manifest& manifest) {
        manifest.models = {world_.layout.spec()};
        if (job_ != nullptr) manifest.jobs.push_back(job_->Record());
      },
      [this] { changing_ = false; }, *progress);
  cutting_ = false;
  world_.trace.Note("checkpoint", {static_cast<int64_t>(taken.status().code())});
  return taken.status();
}

absl::Status CoordinatorProcess::RestoreCheckpoint(uint64_t checkpoint_id) {
  if (cutting_ || changing_) return absl::AbortedError("another checkpoint, or a change of models");
  ASSIGN_OR_RETURN(const coordinator::ClusterMap map, membership_.Map());
  cutting_ = changing_ = restoring_ = true;
  rollback_requested_ = false;
  const std::shared_ptr<coordinator::WorkProgress> progress = Progress();
  const absl::StatusOr<coordinator::Manifest> manifest =
      cuts_.Rollback(map, checkpoint_id, *progress);
  absl::Status restored = manifest.status();
  if (restored.ok() && !manifest->jobs.empty()) {
    restored = JobOf().Restore(manifest->jobs.front());
    world_.oracle.NewJob(*job_);
  }
  if (restored.ok() && manifest->topology_version != map.topology_version) {
    for (const coordinator::ShardView& shard : map.shards) {
      to_sync_[shard.shard.value()] = shard.generation;
    }
  }
  EndRestore(restored.ok());
  cutting_ = changing_ = false;
  world_.trace.Note("restore", {static_cast<int64_t>(restored.code())});
  return restored;
}

void CoordinatorProcess::RestoreForPerson() {
  person_waits_ = true;
  person_waits_ = !RestoreCheckpoint(0).ok();
  if (!person_waits_) return;
  Node::After(node_, absl::Milliseconds(100), [this] { RestoreForPerson(); });
}

void CoordinatorProcess::EndRestore(bool done) {
  if (done && rollback_requested_) {
    mark_->Begin(coordinator::RestoreMark::kNewest).IgnoreError();
  } else if (done) {
    mark_->Clear().IgnoreError();
  }
  rollback_requested_ = mark_->checkpoint_id().has_value();
  restoring_ = mark_->begun();
}

// --- Background

absl::Status CoordinatorProcess::RollbackIfRequested() {
  if (!rollback_requested_) return absl::OkStatus();
  // One that is being taken may be the first: its end is awaited.
  if (cutting_) return absl::AbortedError("another checkpoint");
  if (!disk_.manifests.files.empty()) {
    return RestoreCheckpoint(mark_->checkpoint_id().value_or(coordinator::RestoreMark::kNewest));
  }
  RETURN_IF_ERROR(mark_->Clear());
  rollback_requested_ = false;
  for (int shard = 0; shard < world_.settings.shards; ++shard) world_.oracle.BeginsAfresh(shard);
  return absl::OkStatus();
}

absl::Status CoordinatorProcess::SyncShards() {
  if (to_sync_.empty() || changing_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const coordinator::ClusterMap map, membership_.Map());
  changing_ = true;
  absl::Status result;
  const std::map<int, uint64_t> shards = to_sync_;
  for (const auto& [shard, generation] : shards) {
    CreateModelCommand command = world_.layout.CreateOn(shard);
    command.topology_version = map.topology_version;
    const auto created = shards_.CreateModel(ShardCalls::AddressOf(shard), command, kCallTimeout);
    result.Update(created.status());
    if (!created.ok()) continue;
    const auto entry = to_sync_.find(shard);
    if (entry != to_sync_.end() && entry->second == generation) to_sync_.erase(entry);
  }
  changing_ = false;
  // As a registration of the model: it counts when every shard has it.
  if (result.ok() && to_sync_.empty() && unseen_.empty()) disk_.has_model = true;
  return result;
}

void CoordinatorProcess::SyncLoop() {
  Node::After(node_, kSyncPause, [this] {
    absl::Duration pause = kSyncPause;
    const absl::Status restored = RollbackIfRequested();
    if (!restored.ok()) {
      pause = kRollbackPause;
    } else {
      SyncShards().IgnoreError();
    }
    if (node_->alive()) Node::After(node_, pause, [this] { SyncLoop(); });
  });
}

void CoordinatorProcess::ScheduleLoop() {
  const absl::Duration pause = world_.Between(absl::Milliseconds(100), absl::Milliseconds(500));
  Node::After(node_, pause, [this] {
    if (disk_.has_model) TakeCheckpoint().IgnoreError();
    if (node_->alive()) ScheduleLoop();
  });
}

}  // namespace dslide::simulation
