// Who serves a cluster, and which slots each shard owns.

#pragma once

#include <cstdint>
#include <vector>

#include "core/partition/slot_map.h"
#include "core/protocol/shard_info.h"

namespace dslide {

struct ClusterMap {
  uint64_t topology_version = 0;
  uint64_t restore_count = 0;       // of cluster checkpoints; 0 as long as none was restored
  std::vector<ShardInfo> shards;    // by ordinal, all of them: shards[i].shard == i
  std::vector<SlotMap> slots = {};  // those that were asked for
};

}  // namespace dslide
