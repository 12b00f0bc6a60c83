#include "services/coordinator/control/coordinator.h"

#include <utility>

#include "core/base/status_macros.h"

namespace dslide::coordinator {
namespace {

RestoreMark* MarkOf(const std::unique_ptr<ManifestStore>& manifests) {
  return manifests == nullptr ? nullptr : &manifests->restore_mark();
}

std::unique_ptr<ClusterCheckpoints> MakeCheckpoints(const ClusterCheckpointOptions& options,
                                                    ShardAdmin* shards, AssetStore* assets,
                                                    const Clock* clock,
                                                    std::unique_ptr<ManifestStore> manifests) {
  if (manifests == nullptr) return nullptr;
  return std::make_unique<ClusterCheckpoints>(options, shards, assets, clock, std::move(manifests));
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, const Clock* clock,
                         std::unique_ptr<ShardAdmin> shards, CoordinatorStores stores,
                         Metrics* metrics)
    : options_(options),
      shards_(std::move(shards)),
      registry_(options.membership, clock, std::move(stores.catalog), MarkOf(stores.manifests),
                stores.manifests == nullptr ? 0 : stores.manifests->RestoreCount(), metrics),
      jobs_(options.jobs, std::move(stores.jobs), clock, metrics),
      assets_(std::move(stores.assets)),
      models_(std::make_unique<ModelRollout>(ModelRolloutOptions{},
                                             ModelRollout::Cluster{.registry = &registry_,
                                                                   .jobs = &jobs_,
                                                                   .assets = assets_.get(),
                                                                   .shards = shards_.get()},
                                             metrics)),
      model_checkpoints_(std::make_unique<ModelCheckpoints>(&registry_, &jobs_, shards_.get())),
      checkpoints_(
          {.registry = &registry_, .jobs = &jobs_, .assets = assets_.get(), .models = &models_},
          MakeCheckpoints(options.checkpoints, shards_.get(), assets_.get(), clock,
                          std::move(stores.manifests)),
          options.checkpoints.full_every, clock, metrics),
      sync_(&registry_, &models_, &checkpoints_),
      scheduler_(options.schedule, &registry_, &checkpoints_, clock),
      scrubber_(options.scrub_interval, &registry_, &checkpoints_, clock) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(const CoordinatorOptions& options,
                                                                 const Clock* clock,
                                                                 std::unique_ptr<ShardAdmin> shards,
                                                                 CoordinatorStores stores,
                                                                 Metrics* metrics) {
  if (stores.assets == nullptr) {
    ASSIGN_OR_RETURN(stores.assets, AssetStore::Open(AssetFolders::InMemory(), options.assets));
  }
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(options, clock, std::move(shards), std::move(stores), metrics));
  RETURN_IF_ERROR(coordinator->registry_.Load());
  RETURN_IF_ERROR(coordinator->jobs_.Load());
  coordinator->StartLoops();
  return coordinator;
}

void Coordinator::StartLoops() {
  loops_.push_back(std::make_unique<BackgroundLoop>(
      [this] { return registry_.AwaitReturned() ? sync_.RunOnce() : absl::InfiniteDuration(); }));
  if (!checkpoints_.enabled()) return;
  if (options_.schedule.mode != CheckpointSchedule::Mode::kOff) {
    loops_.push_back(std::make_unique<BackgroundLoop>([this] { return scheduler_.RunOnce(); }));
  }
  if (options_.scrub_interval > absl::ZeroDuration()) {
    loops_.push_back(std::make_unique<BackgroundLoop>([this] { return scrubber_.RunOnce(); }));
  }
}

Coordinator::~Coordinator() {
  Stop();
  loops_.clear();
}

void Coordinator::Stop() {
  shards_->Stop();
  for (const auto& loop : loops_) loop->Stop();
  registry_.Stop();
}

absl::StatusOr<bool> Coordinator::RegisterModel(const ModelSpec& spec, absl::Duration timeout) {
  return models_.Acquire()->Create(spec, timeout);
}

absl::StatusOr<ModelGrowth> Coordinator::GrowModel(const GrowthRequest& request,
                                                   absl::Duration timeout) {
  return models_.Acquire()->Grow(request, timeout);
}

absl::StatusOr<ModelRetirement> Coordinator::RetireLabels(const RetirementRequest& request,
                                                          absl::Duration timeout) {
  return models_.Acquire()->RetireLabels(request, timeout);
}

absl::Status Coordinator::UnregisterModel(const std::string& model, bool force,
                                          absl::Duration timeout) {
  if (!force) RETURN_IF_ERROR(jobs_.CheckIdle(model));
  return models_.Acquire()->Drop(model, timeout);
}

absl::StatusOr<FileList> Coordinator::ListAssets(const std::string& model) const {
  RETURN_IF_ERROR(registry_.FindModel(model));
  return assets_->Find(model);
}

absl::StatusOr<bool> Coordinator::CommitAssets(const AssetSetId& id,
                                               std::optional<uint32_t> replaces) {
  // Meanwhile the model does not go, and no checkpoint is cut.
  const Exclusive<ModelRollout>::Turn turn = models_.Acquire();
  RETURN_IF_ERROR(registry_.FindModel(id.model));
  return assets_->Commit(id, replaces);
}

absl::Status Coordinator::CheckCheckpoint(const std::string& model,
                                          const std::string& checkpoint) const {
  return ModelCheckpoints::Check(registry_, model, checkpoint);
}

absl::StatusOr<CheckpointSize> Coordinator::CreateCheckpoint(const std::string& model,
                                                             const std::string& checkpoint,
                                                             absl::Duration timeout,
                                                             WorkProgress& progress) {
  ASSIGN_OR_RETURN(const auto checkpoints, model_checkpoints_.Acquire(progress));
  return checkpoints->Create(model, checkpoint, timeout, progress);
}

absl::StatusOr<int64_t> Coordinator::RestoreCheckpoint(const std::string& model,
                                                       const std::string& checkpoint,
                                                       absl::Duration timeout,
                                                       WorkProgress& progress) {
  ASSIGN_OR_RETURN(const auto checkpoints, model_checkpoints_.Acquire(progress));
  return checkpoints->Restore(model, checkpoint, timeout, progress);
}

absl::StatusOr<bool> Coordinator::RegisterJob(const JobSpec& spec, const ClientId& client) {
  return jobs_.Register(spec, client,
                        [this](const std::string& model) { return registry_.FindModel(model); });
}

ClusterStatus Coordinator::Status() const {
  ClusterStatus status = registry_.Status();
  status.jobs = jobs_.List();
  if (!checkpoints_.enabled()) return status;
  const CheckpointFigures::View figures = checkpoints_.figures().view();
  status.checkpoints =
      CheckpointStatus{.last_checkpoint_id = figures.last_checkpoint_id,
                       .age = figures.age,
                       .interval = options_.schedule.mode == CheckpointSchedule::Mode::kOff
                                       ? absl::ZeroDuration()
                                       : options_.schedule.PauseAfter(figures.mean_cost),
                       .failures = figures.failures,
                       .scrub_age = figures.scrub_age,
                       .scrub_interval = options_.scrub_interval};
  return status;
}

}  // namespace dslide::coordinator
