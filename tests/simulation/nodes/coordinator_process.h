// One life of the coordinator's process: the product's parts, whose loops run over virtual time.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "core/net/metrics/metrics.h"
#include "services/coordinator/assets/asset_folders.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/control/checkpoint_control.h"
#include "services/coordinator/control/cluster_registry.h"
#include "services/coordinator/control/model_rollout.h"
#include "services/coordinator/control/shard_sync.h"
#include "services/coordinator/jobs/job_table.h"
#include "services/coordinator/tasks/exclusive.h"
#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/shard_calls.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// All of it runs on one thread: whoever would wait for a turn that an earlier call on the stack has
// is refused here instead. Not thread-safe.
class CoordinatorProcess {
 public:
  // What is passed outlives it.
  CoordinatorProcess(World& world, NodePtr node, CoordinatorDisk& disk);

  const NodePtr& node() const { return node_; }
  void Start();

  absl::StatusOr<RegistrationAnswer> Register(int shard, const std::string& instance_id,
                                              bool has_model);
  // Whether the cluster may go back.
  absl::StatusOr<bool> Heartbeat(int shard, uint64_t generation);
  absl::Status Map() const;
  absl::StatusOr<Work> Acquire(const WorkRequest& request);

  // Nothing is left to be done for any shard, nor for a person.
  bool quiet() const;

  // Both block: events go on meanwhile.
  absl::Status TakeCheckpoint();
  absl::Status RestoreCheckpoint(uint64_t checkpoint_id);
  // A person repeats it until it has worked, as docs/operate/checkpoint.md says. Blocks, too.
  void RestoreForPerson();

 private:
  std::unique_ptr<Manifests> OpenManifests();
  std::unique_ptr<coordinator::ClusterCheckpoints> OpenCheckpoints();
  // That of a checkpoint or a restore, which somebody may cancel while it runs. Shared with the
  // event that does.
  std::shared_ptr<coordinator::WorkProgress> Progress();
  void SyncLoop();
  // Returns how long to wait before the next call.
  absl::Duration Sync();
  void ScheduleLoop();
  // Before a checkpoint, as the planted bug wants it.
  void ForgetWhatIsMissing();
  // To the oracle: the job is not the one that it knows.
  void ShowJob();
  bool CommitManifest(const coordinator::Manifest& manifest, const std::function<void()>& write);

  World& world_;
  const NodePtr node_;
  CoordinatorDisk& disk_;
  Metrics metrics_;
  ShardCalls shards_;
  std::unique_ptr<Manifests> manifests_;  // until checkpoints_ has it
  coordinator::RestoreMark* const mark_;  // of the manifests
  coordinator::ClusterRegistry registry_;
  coordinator::JobTable jobs_;
  const std::unique_ptr<coordinator::AssetStore> assets_;  // the models have none
  coordinator::Exclusive<coordinator::ModelRollout> models_;
  coordinator::CheckpointControl checkpoints_;
  coordinator::ShardSync sync_;
  std::set<int> unseen_;       // shards of an earlier process, silent until now
  uint64_t restores_ = 0;      // that the oracle knows of
  bool person_waits_ = false;  // for a restore
};

}  // namespace dslide::simulation
