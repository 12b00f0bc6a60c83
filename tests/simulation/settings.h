// One simulation: its seed, and what follows from it.

#pragma once

#include <cstdint>

#include "services/shard/durability/durability.h"
#include "tests/simulation/bugs.h"

namespace dslide::simulation {

struct Settings {
  uint64_t seed = 1;
  Bug bug = Bug::kNone;
  bool print_trace = false;

  // Chosen by SettingsOf().
  shard::Durability mode = shard::Durability::kCheckpoint;
  int shards = 2;
  int trainers = 1;
  int increment_clients = 1;
};

Settings SettingsOf(uint64_t seed);

}  // namespace dslide::simulation
