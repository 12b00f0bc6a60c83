// The machine of one shard: its disk, and the process that runs there now.

#pragma once

#include <memory>
#include <vector>

#include "tests/simulation/nodes/shard_process.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// Not thread-safe.
class ShardHost {
 public:
  // `world` outlives it.
  ShardHost(World& world, int shard) : world_(world), shard_(shard) {}

  void Start();
  // Ends the process; another one starts after `pause`.
  void Crash(bool power, absl::Duration pause);
  // Another process takes over the disk; the old one goes on until it is told.
  void Replace();

  bool up() const { return process_ != nullptr && process_->node()->alive(); }
  // Null before the first start.
  ShardProcess* process() { return process_.get(); }
  const ShardProcess* process() const { return process_.get(); }
  ShardDisk& disk() { return disk_; }

 private:
  void Crash(const NodePtr& node, bool power, absl::Duration pause);

  World& world_;
  const int shard_;
  ShardDisk disk_;
  bool power_ = false;  // how the last life has ended
  bool starting_ = false;
  std::unique_ptr<ShardProcess> process_;
  // Those that are over: what is on its way may still point to them.
  std::vector<std::unique_ptr<ShardProcess>> past_;
};

}  // namespace dslide::simulation
