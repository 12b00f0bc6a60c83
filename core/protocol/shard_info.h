// A shard of a cluster, as its coordinator knows it and clients see it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

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
  std::string admin_address;  // host:port of its metrics; empty: not for others
};

// What slots are dealt by (SlotMap::Deal).
std::vector<double> CapacityWeights(absl::Span<const ShardInfo> shards);

}  // namespace dslide
