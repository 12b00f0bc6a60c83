// Hash tables as they are made of the rows, for what has none of its own.

#pragma once

#include "services/shard/state/shard_core.h"

namespace dslide::shard {

inline void RebuildTables(ShardCore& core) {
  for (const auto& [name, model] : core.models()) {
    for (ShardTable& table : model->tables()) {
      table.ResetAfterLoad(table.applied(), model->parallelism());
    }
  }
}

}  // namespace dslide::shard
