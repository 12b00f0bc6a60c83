// The shards of a cluster, as its coordinator knows them and clients see them, and the slots that
// each owns.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/partition/slot_map.h"

namespace dslide {

enum class ShardHealth {
  kAlive,  // heartbeats arrive
  kLost,   // several are missing
  kLeft,   // it said good-bye
};
// "alive", "lost", "left".
const char* ShardHealthName(ShardHealth health);

struct ShardInfo {
  ShardId shard;
  std::string address;
  double capacity_weight = 1.0;
  uint64_t generation = 0;
  ShardHealth health = ShardHealth::kAlive;
  int64_t memory_bytes = 0;
  int64_t applied_commands = 0;
  std::string admin_address;         // host:port of its metrics; empty: not for others
  double commands_per_second = 0.0;  // between its last two heartbeats; 0 before the second
};

// What slots are dealt by (SlotMap::Deal).
std::vector<double> CapacityWeights(absl::Span<const ShardInfo> shards);

struct ClusterMap {
  uint64_t topology_version = 0;
  uint64_t restore_count = 0;       // of cluster checkpoints; 0 as long as none was restored
  std::vector<ShardInfo> shards;    // by ordinal, all of them: shards[i].shard == i
  std::vector<SlotMap> slots = {};  // those that were asked for
};

}  // namespace dslide
