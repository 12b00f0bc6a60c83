#include "core/protocol/shard_info.h"

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

}  // namespace dslide
