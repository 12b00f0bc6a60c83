// One life of the coordinator's process: the product's membership, job and checkpoint driver. What
// services/coordinator/control/coordinator.h does between them on its threads is repeated here in
// its order.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "services/coordinator/checkpoints/cluster_checkpoints.h"
#include "services/coordinator/checkpoints/restore_mark.h"
#include "services/coordinator/jobs/job.h"
#include "services/coordinator/membership/membership.h"
#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/shard_calls.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// Not thread-safe.
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
  absl::StatusOr<coordinator::Work> Acquire(const coordinator::WorkRequest& request);

  // Nothing is left to be done for any shard, nor for a person.
  bool quiet() const {
    return to_sync_.empty() && unseen_.empty() && !mark_->checkpoint_id().has_value() &&
           !person_waits_;
  }

  // Both block: events go on meanwhile.
  absl::Status TakeCheckpoint();
  absl::Status RestoreCheckpoint(uint64_t checkpoint_id);
  // A person repeats it until it has worked, as docs/checkpoint.md says. Blocks, too.
  void RestoreForPerson();

 private:
  std::unique_ptr<Manifests> OpenManifests();
  // That of a checkpoint or a restore, which somebody may cancel while it runs. Shared with the
  // event that does.
  std::shared_ptr<coordinator::WorkProgress> Progress();
  void EndRestore(bool done);
  void SyncLoop();
  void ScheduleLoop();
  absl::Status RollbackIfRequested();
  absl::Status SyncShards();
  coordinator::Job& JobOf();
  bool CommitManifest(const coordinator::Manifest& manifest, const std::function<void()>& write);

  World& world_;
  const NodePtr node_;
  CoordinatorDisk& disk_;
  coordinator::Membership membership_;
  ShardCalls shards_;
  coordinator::RestoreMark* mark_ = nullptr;  // of cuts_
  coordinator::ClusterCheckpoints cuts_;
  std::unique_ptr<coordinator::Job> job_;
  std::map<int, uint64_t> to_sync_;  // shard -> generation
  std::set<int> unseen_;             // shards of an earlier process, silent until now
  bool rollback_requested_ = false;
  bool cutting_ = false;   // a checkpoint is being taken or restored
  bool changing_ = false;  // models are
  bool restoring_ = false;
  bool person_waits_ = false;  // for a restore
};

}  // namespace dslide::simulation
