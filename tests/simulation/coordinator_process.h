// One life of the coordinator's process: the product's membership, job and checkpoint driver. What
// services/coordinator/coordinator.h does between them on its threads is repeated here in its
// order.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "services/coordinator/cluster_checkpoints.h"
#include "services/coordinator/job.h"
#include "services/coordinator/membership.h"
#include "tests/simulation/coordinator_host.h"
#include "tests/simulation/shard_calls.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// Not thread-safe.
class CoordinatorProcess {
 public:
  // What is passed outlives it.
  CoordinatorProcess(World& world, NodePtr node, CoordinatorDisk& disk);

  const NodePtr& node() const { return node_; }
  void Start();

  absl::StatusOr<uint64_t> Register(int shard, const std::string& instance_id, bool has_model);
  absl::Status Heartbeat(int shard, uint64_t generation);
  absl::Status Map() const;
  absl::StatusOr<coordinator::Work> Acquire(const coordinator::WorkRequest& request);

  // Nothing is left to be done for any shard.
  bool quiet() const {
    return to_sync_.empty() && roll_backs_wanted_ == roll_backs_done_ && !world_.oracle.mixed();
  }

  // Both block: events go on meanwhile.
  absl::Status TakeCheckpoint();
  absl::Status RestoreCheckpoint(uint64_t epoch);

 private:
  void SyncLoop();
  void ScheduleLoop();
  absl::Status RollBackIfWanted();
  absl::Status SyncShards();
  coordinator::Job& JobOf();
  bool CommitManifest(const coordinator::Manifest& manifest, const std::function<void()>& write);

  World& world_;
  const NodePtr node_;
  CoordinatorDisk& disk_;
  coordinator::Membership membership_;
  ShardCalls shards_;
  coordinator::ClusterCheckpoints cuts_;
  std::unique_ptr<coordinator::Job> job_;
  std::map<int, uint64_t> to_sync_;  // shard -> generation
  // Times that a shard came back without its rows; of those, dealt with.
  uint64_t roll_backs_wanted_ = 0, roll_backs_done_ = 0;
  bool cutting_ = false;   // a checkpoint is being taken or restored
  bool changing_ = false;  // models are
  bool restoring_ = false;
};

}  // namespace dslide::simulation
