#include "core/protocol/cluster_map.h"

namespace dslide {

const char* ShardHealthName(ShardHealth health) {
  switch (health) {
    case ShardHealth::kAlive:
      return "alive";
    case ShardHealth::kLost:
      return "lost";
    case ShardHealth::kLeft:
      return "left";
  }
  return "unknown";
}

std::vector<double> CapacityWeights(absl::Span<const ShardInfo> shards) {
  std::vector<double> weights;
  weights.reserve(shards.size());
  for (const ShardInfo& shard : shards) weights.push_back(shard.capacity_weight);
  return weights;
}

}  // namespace dslide
