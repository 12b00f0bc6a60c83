// A step of one client, as the shards and the coordinator agree on them for a cut.

#pragma once

#include <cstdint>

#include "core/protocol/commands.h"

namespace dslide {

struct ClientStep {
  ClientId client = {};
  int64_t step = 0;
};

}  // namespace dslide
