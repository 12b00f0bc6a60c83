// What all parts of one simulation share.

#pragma once

#include <memory>
#include <vector>

#include "core/base/counter_rng.h"
#include "tests/simulation/event_loop.h"
#include "tests/simulation/layout.h"
#include "tests/simulation/network.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/settings.h"
#include "tests/simulation/trace.h"

namespace dslide::simulation {

class CoordinatorHost;
class ShardHost;

// Not thread-safe.
struct World {
  explicit World(const Settings& its_settings);
  ~World();

  const Settings settings;
  EventLoop loop;
  Trace trace;
  Network network;
  Layout layout;
  Oracle oracle;
  CounterRng rng;         // of whatever has no generator of its own
  bool faults_on = true;  // until the end, when everything may come to rest
  std::vector<std::unique_ptr<ShardHost>> shards;
  std::unique_ptr<CoordinatorHost> coordinator;

  Place coordinator_place() const { return settings.shards; }
  // 128 bits that no other client of this simulation has.
  ClientId NewClientId();
  // True with this probability.
  bool Chance(double probability) { return rng.NextUniform() < probability; }
  // In [low, high].
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + (high - low) * rng.NextUniform();
  }

 private:
  uint64_t clients_ = 0;
};

}  // namespace dslide::simulation
