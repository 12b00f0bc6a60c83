// What a cluster owes shards that have come back: their rows, or their models.

#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/coordinator/control/checkpoint_control.h"
#include "services/coordinator/control/cluster_registry.h"
#include "services/coordinator/control/model_rollout.h"
#include "services/coordinator/tasks/exclusive.h"

namespace dslide::coordinator {

// Not thread-safe: one loop has it.
class ShardSync {
 public:
  // What is passed outlives it.
  ShardSync(ClusterRegistry* registry, Exclusive<ModelRollout>* models,
            CheckpointControl* checkpoints)
      : registry_(registry), models_(models), checkpoints_(checkpoints) {}

  // Takes the cluster back if a shard needs that or a restore was not finished, then creates the
  // models that returned shards lack. Returns how long to wait before the next call.
  absl::Duration RunOnce();

 private:
  absl::Status RollbackIfRequested();
  // Returns whether all of them have their models.
  bool SyncReturned();

  ClusterRegistry* const registry_;
  Exclusive<ModelRollout>* const models_;
  CheckpointControl* const checkpoints_;
};

}  // namespace dslide::coordinator
