#include "tests/simulation/world.h"

#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/shard_host.h"

namespace dslide::simulation {
namespace {

enum KeyPart : uint64_t { kNetworkKey = 1, kWorldKey = 2, kSettingsKey = 3 };

}  // namespace

Settings SettingsOf(uint64_t seed) {
  CounterRng rng(DeriveKey(seed, kSettingsKey));
  Settings settings;
  settings.seed = seed;
  const uint64_t mode = rng.NextBelow(5);
  settings.mode = mode < 2   ? shard::Durability::kCheckpoint
                  : mode < 4 ? shard::Durability::kLog
                             : shard::Durability::kLogPeriodic;
  settings.shards = 2 + static_cast<int>(rng.NextBelow(2));
  settings.trainers = 1 + static_cast<int>(rng.NextBelow(2));
  settings.increment_clients = 1 + static_cast<int>(rng.NextBelow(2));
  return settings;
}

World::World(const Settings& its_settings)
    : settings(its_settings),
      trace(loop, settings.print_trace),
      network(loop, trace, DeriveKey(settings.seed, kNetworkKey)),
      layout(settings.shards),
      oracle(settings.mode, layout.shards(), trace),
      rng(DeriveKey(settings.seed, kWorldKey)) {}

World::~World() = default;

ClientId World::NewClientId() {
  ClientId id = {};
  id[0] = static_cast<uint8_t>(++clients_);
  id[1] = static_cast<uint8_t>(clients_ >> 8);
  id[15] = 1;
  return id;
}

}  // namespace dslide::simulation
