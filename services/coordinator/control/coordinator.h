// The coordinator without gRPC: its parts, put together.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "core/protocol/cluster_status.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/control/checkpoint_control.h"
#include "services/coordinator/control/checkpoint_scheduler.h"
#include "services/coordinator/control/checkpoint_scrubber.h"
#include "services/coordinator/control/cluster_registry.h"
#include "services/coordinator/control/model_checkpoints.h"
#include "services/coordinator/control/model_rollout.h"
#include "services/coordinator/control/shard_sync.h"
#include "services/coordinator/tasks/background_loop.h"
#include "services/coordinator/tasks/exclusive.h"

namespace dslide::coordinator {

struct CoordinatorOptions {
  MembershipOptions membership = {};
  JobTableOptions jobs = {};
  AssetLimits assets = {};
  // When cluster checkpoints are taken without being asked for.
  CheckpointSchedule schedule = {};
  ClusterCheckpointOptions checkpoints = {};
  // How often committed ones are read and compared; zero: never.
  absl::Duration scrub_interval = {};
};

// What outlives the process; all null for a coordinator without memory, which keeps assets while it
// runs.
struct CoordinatorStores {
  std::unique_ptr<CatalogStore> catalog = nullptr;
  std::unique_ptr<ManifestStore> manifests = nullptr;
  std::unique_ptr<JobStore> jobs = nullptr;
  std::unique_ptr<AssetStore> assets = nullptr;
};

// Thread safety: safe from any thread. Calls that ask shards block for `timeout` at most, those
// with a WorkProgress until it says that they are to end; the others are quick.
class Coordinator {
 public:
  // `clock` and `metrics` outlive it. Errors: those of ClusterRegistry::Load and JobTable::Load.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const CoordinatorOptions& options,
                                                             const Clock* clock,
                                                             std::unique_ptr<ShardAdmin> shards,
                                                             CoordinatorStores stores,
                                                             Metrics* metrics);
  // Stops first.
  ~Coordinator();

  const CoordinatorOptions& options() const { return options_; }

  // Ends calls to shards, waits until none runs, and refuses new ones. Repeating it is fine.
  void Stop();

  // Shards, models, jobs and cluster checkpoints, each with its own calls and errors.
  ClusterRegistry& registry() { return registry_; }
  const ClusterRegistry& registry() const { return registry_; }
  JobTable& jobs() { return jobs_; }
  CheckpointControl& checkpoints() { return checkpoints_; }

  // --- Models: those of ModelRollout, one after another.
  absl::StatusOr<bool> RegisterModel(const ModelSpec& spec, absl::Duration timeout);
  absl::StatusOr<ModelGrowth> GrowModel(const GrowthRequest& request, absl::Duration timeout);
  absl::StatusOr<ModelRetirement> RetireLabels(const RetirementRequest& request,
                                               absl::Duration timeout);
  // Unless forced, also those of JobTable::CheckIdle().
  absl::Status UnregisterModel(const std::string& model, bool force, absl::Duration timeout);

  // --- Assets of models that are there: those of AssetStore, and NotFound UNKNOWN_MODEL.
  absl::StatusOr<FileList> ListAssets(const std::string& model) const;
  absl::StatusOr<bool> CommitAssets(const AssetSetId& id, std::optional<uint32_t> replaces);
  // Their pieces.
  AssetStore& assets() { return *assets_; }

  // --- Named checkpoints: those of ModelCheckpoints, one after another.
  absl::Status CheckCheckpoint(const std::string& model, const std::string& checkpoint) const;
  absl::StatusOr<CheckpointSize> CreateCheckpoint(const std::string& model,
                                                  const std::string& checkpoint,
                                                  absl::Duration timeout, WorkProgress& progress);
  absl::StatusOr<int64_t> RestoreCheckpoint(const std::string& model, const std::string& checkpoint,
                                            absl::Duration timeout, WorkProgress& progress);

  absl::StatusOr<bool> RegisterJob(const JobSpec& spec, const ClientId& client);

  ClusterStatus Status() const;

 private:
  Coordinator(const CoordinatorOptions& options, const Clock* clock,
              std::unique_ptr<ShardAdmin> shards, CoordinatorStores stores, Metrics* metrics);
  void StartLoops();

  const CoordinatorOptions options_;
  const std::unique_ptr<ShardAdmin> shards_;
  // In the order of construction: later ones use earlier ones.
  ClusterRegistry registry_;
  JobTable jobs_;
  const std::unique_ptr<AssetStore> assets_;
  Exclusive<ModelRollout> models_;
  Exclusive<ModelCheckpoints> model_checkpoints_;
  CheckpointControl checkpoints_;
  ShardSync sync_;
  CheckpointScheduler scheduler_;
  CheckpointScrubber scrubber_;
  std::vector<std::unique_ptr<BackgroundLoop>> loops_;  // constant after Create()
};

}  // namespace dslide::coordinator
