#include "tests/simulation/nodes/coordinator_process.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/shard/image/image_label.h"
#include "tests/simulation/nodes/memory_catalog.h"
#include "tests/simulation/nodes/shard_host.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kSyncPause = absl::Milliseconds(20);
constexpr absl::Duration kCallTimeout = absl::Milliseconds(150);
// Shards answer, die and come back so much faster here than where the product's pauses were chosen.
constexpr int64_t kHaste = 50;

coordinator::MembershipOptions MembershipOf(const World& world) {
  return {.expected_shards = world.settings.shards, .heartbeat_interval = absl::Milliseconds(400)};
}

JobSpec JobSpecOf() {
  return {
      .job = "work", .model = kModel, .samples_per_epoch = 7, .chunk_samples = 2, .max_epochs = 10};
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, NodePtr node, CoordinatorDisk& disk)
    : world_(world),
      node_(std::move(node)),
      disk_(disk),
      shards_(world, node_),
      manifests_(OpenManifests()),
      mark_(&manifests_->restore_mark()),
      registry_(MembershipOf(world), &world.loop,
                std::make_unique<MemoryCatalog>(node_, disk_.catalog), mark_,
                manifests_->RestoreCount(), &metrics_),
      jobs_({.timing = {.lease_timeout = absl::Milliseconds(300)},
             .first_lease = disk_.lives * 1'000'000 + 1},
            std::make_unique<MemoryJobs>(node_, disk_.jobs), &world.loop, &metrics_),
      assets_(*coordinator::AssetStore::Open(coordinator::AssetFolders::InMemory(), {})),
      models_(std::make_unique<coordinator::ModelRollout>(
          coordinator::ModelRolloutOptions{.calls_at_once = 1, .sync_timeout = kCallTimeout},
          coordinator::ModelRollout::Cluster{
              .registry = &registry_, .jobs = &jobs_, .assets = assets_.get(), .shards = &shards_},
          &metrics_)),
      checkpoints_(
          {.registry = &registry_, .jobs = &jobs_, .assets = assets_.get(), .models = &models_},
          OpenCheckpoints(),
          /*full_every=*/1, &world.loop, &metrics_),
      sync_(&registry_, &models_, &checkpoints_) {}

std::unique_ptr<Manifests> CoordinatorProcess::OpenManifests() {
  if (world_.settings.bug == Bug::kRestoreForgotten) disk_.manifests.restoring.reset();
  return std::make_unique<Manifests>(
      node_, disk_.manifests,
      [this](const coordinator::Manifest& manifest, const std::function<void()>& write) {
        return CommitManifest(manifest, write);
      });
}

std::unique_ptr<coordinator::ClusterCheckpoints> CoordinatorProcess::OpenCheckpoints() {
  return std::make_unique<coordinator::ClusterCheckpoints>(
      coordinator::ClusterCheckpointOptions{
          .barrier_timeout = absl::Milliseconds(120),
          .write_timeout = absl::Seconds(1),
          .call_timeout = kCallTimeout,
          .keep = 2,
          .calls_at_once = 1,
          .sleep =
              [this](absl::Duration pause) {
                const absl::Duration end = world_.loop.Now() + pause;
                world_.loop.RunUntil(end, [this] { return !node_->alive(); });
              }},
      &shards_, assets_.get(), &world_.loop, std::move(manifests_));
}

void CoordinatorProcess::Start() {
  if (world_.settings.bug == Bug::kJobsForgotten) disk_.jobs.clear();
  absl::Status loaded = registry_.Load();
  if (loaded.ok()) loaded = jobs_.Load();
  if (!loaded.ok()) world_.trace.Violation(absl::StrCat("coordinator: ", loaded.ToString()));
  restores_ = registry_.Status().restore_count;
  const std::vector<coordinator::JobRecord> jobs = jobs_.Records();
  world_.oracle.Resumed(jobs.empty() ? nullptr : &jobs.front(), restores_,
                        mark_->checkpoint_id().has_value());
  for (const ShardInfo& shard : registry_.Shards()) {
    unseen_.insert(shard.shard.value());
  }
  SyncLoop();
  ScheduleLoop();
}

bool CoordinatorProcess::quiet() const {
  return !registry_.ListModels().empty() && registry_.Returned().empty() && unseen_.empty() &&
         !mark_->checkpoint_id().has_value() && !person_waits_;
}

// --- Calls

absl::StatusOr<RegistrationAnswer> CoordinatorProcess::Register(int shard,
                                                                const std::string& instance_id,
                                                                bool has_model) {
  const coordinator::ShardRegistration request{.wanted = ShardId(shard),
                                               .address = ShardCalls::AddressOf(shard),
                                               .instance_id = instance_id,
                                               .admin_address = ""};
  std::vector<ModelSpec> models;
  if (has_model) models.push_back(world_.layout.spec());
  ASSIGN_OR_RETURN(const coordinator::Ownership owner, registry_.Register(request, models));
  if (!owner.rollback_pending) world_.oracle.BeginsAfresh(shard);
  return RegistrationAnswer{.generation = owner.generation,
                            .rollback_pending = owner.rollback_pending};
}

absl::StatusOr<bool> CoordinatorProcess::Heartbeat(int shard, uint64_t generation) {
  ASSIGN_OR_RETURN(const coordinator::HeartbeatAnswer answer,
                   registry_.Heartbeat(ShardId(shard), generation, 0, 0));
  unseen_.erase(shard);
  return answer.rollback_pending;
}

absl::Status CoordinatorProcess::Map() const {
  if (registry_.ListModels().empty()) return absl::UnavailableError("there is no model yet");
  return registry_.Map().status();
}

void CoordinatorProcess::ShowJob() {
  const std::vector<coordinator::JobRecord> records = jobs_.Records();
  if (records.empty()) return;
  world_.oracle.NewJob(records.front(), jobs_.Counters().chunks_done, restores_);
}

absl::StatusOr<Work> CoordinatorProcess::Acquire(const WorkRequest& request) {
  ASSIGN_OR_RETURN(const bool is_new,
                   jobs_.Register(JobSpecOf(), request.client, [this](const std::string& model) {
                     return registry_.FindModel(model);
                   }));
  const uint64_t restores = registry_.Status().restore_count;
  if (restores != std::exchange(restores_, restores) || is_new) ShowJob();
  WorkRequest own = request;
  own.job = JobSpecOf().job;
  absl::StatusOr<Work> work = jobs_.Acquire(own);
  world_.oracle.Counted(jobs_.Records().front(), jobs_.Counters().chunks_done);
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
    const std::string label = shard::CheckpointLabel(manifest.checkpoint_id);
    parts.push_back(host->disk().parts.Find(label).get());
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

void CoordinatorProcess::ForgetWhatIsMissing() {
  for (const auto& [shard, generation] : registry_.Returned()) {
    registry_.SetSynced(shard, generation);
  }
  if (registry_.rollback_requested()) registry_.ClearRollbackRequest().IgnoreError();
}

absl::Status CoordinatorProcess::TakeCheckpoint() {
  if (checkpoints_.running() || models_.taken()) return absl::AbortedError("another one runs");
  if (world_.settings.bug == Bug::kCutWithoutRows) ForgetWhatIsMissing();
  // The product waits a little for shards that have just come back.
  if (!registry_.Returned().empty()) return absl::UnavailableError("a shard lacks its model");
  const std::shared_ptr<coordinator::WorkProgress> progress = Progress();
  const absl::Status taken = checkpoints_.Take(*progress).status();
  world_.trace.Note("checkpoint", {static_cast<int64_t>(taken.code())});
  return taken;
}

absl::Status CoordinatorProcess::RestoreCheckpoint(uint64_t checkpoint_id) {
  if (checkpoints_.running() || models_.taken()) return absl::AbortedError("another one runs");
  const std::shared_ptr<coordinator::WorkProgress> progress = Progress();
  const absl::Status restored = checkpoints_.Restore(checkpoint_id, *progress).status();
  world_.trace.Note("restore", {static_cast<int64_t>(restored.code())});
  return restored;
}

void CoordinatorProcess::RestoreForPerson() {
  person_waits_ = true;
  person_waits_ = !RestoreCheckpoint(0).ok();
  if (!person_waits_) return;
  Node::After(node_, absl::Milliseconds(100), [this] { RestoreForPerson(); });
}

// --- Background

absl::Duration CoordinatorProcess::Sync() {
  if (models_.taken()) return kSyncPause;
  if (registry_.rollback_requested() && checkpoints_.running()) return kSyncPause;
  if (registry_.ListModels().empty()) {
    models_.Acquire()->Create(world_.layout.spec(), kCallTimeout).IgnoreError();
  }
  const bool rollback = registry_.rollback_requested();
  const absl::Duration pause = sync_.RunOnce();
  if (rollback && !mark_->checkpoint_id().has_value() && disk_.manifests.files.empty()) {
    // There was nothing to go back to.
    for (int shard = 0; shard < world_.settings.shards; ++shard) world_.oracle.BeginsAfresh(shard);
  }
  return std::max(pause / kHaste, kSyncPause);
}

void CoordinatorProcess::SyncLoop() {
  Node::After(node_, kSyncPause, [this] {
    const absl::Duration pause = Sync();
    if (node_->alive()) Node::After(node_, pause, [this] { SyncLoop(); });
  });
}

void CoordinatorProcess::ScheduleLoop() {
  const absl::Duration pause = world_.Between(absl::Milliseconds(100), absl::Milliseconds(500));
  Node::After(node_, pause, [this] {
    if (!registry_.ListModels().empty()) TakeCheckpoint().IgnoreError();
    if (node_->alive()) ScheduleLoop();
  });
}

}  // namespace dslide::simulation
