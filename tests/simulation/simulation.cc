#include "tests/simulation/simulation.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/simulation/fault_schedule.h"
#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/coordinator_process.h"
#include "tests/simulation/nodes/shard_host.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kFaults = absl::Milliseconds(1500);
// After the last fault everything must come to rest within this.
constexpr absl::Duration kRest = absl::Seconds(20);
constexpr int kUpdates = 14;  // of a client, for each shard

void AddClients(World& world, Clients& clients) {
  Place place = world.coordinator_place();
  for (int i = 0; i < world.settings.trainers; ++i) {
    clients.trainers.push_back(std::make_unique<TrainerClient>(
        world, ++place, 1 + static_cast<int64_t>(world.rng.NextBelow(3))));
  }
  for (int i = 0; i < world.settings.increment_clients; ++i) {
    clients.increments.push_back(std::make_unique<IncrementClient>(world, ++place, kUpdates));
  }
  for (const auto& client : clients.trainers) client->Start();
  for (const auto& client : clients.increments) client->Start();
}

bool AllUp(const World& world) {
  for (const auto& shard : world.shards) {
    if (!shard->up() || !shard->process()->owned()) return false;
  }
  return world.coordinator->up() && world.coordinator->process().quiet();
}

void Judge(World& world) {
  std::vector<const shard::ShardCore*> cores;
  for (const auto& host : world.shards) {
    if (!host->up()) return;  // its end was a violation
    host->process()->Compare();
    cores.push_back(&host->process()->core());
  }
  world.oracle.Finish(cores);
}

}  // namespace

Outcome Simulate(const Settings& settings) {
  World world(settings);
  world.coordinator = std::make_unique<CoordinatorHost>(world);
  world.coordinator->Start();
  for (int shard = 0; shard < settings.shards; ++shard) {
    world.shards.push_back(std::make_unique<ShardHost>(world, shard));
  }
  for (const auto& shard : world.shards) shard->Start();
  Clients clients;
  FaultSchedule faults(world, clients);
  faults.Plan(kFaults);
  AddClients(world, clients);
  const auto broken = [&] { return !world.trace.violations().empty(); };
  world.loop.RunUntil(kFaults, broken);
  faults.EndAll();
  const auto at_rest = [&] { return broken() || (AllUp(world) && clients.AllDone()); };
  bool rests = world.loop.RunUntil(world.loop.Now() + kRest, at_rest);
  clients.Settle();
  rests = rests && world.loop.RunUntil(world.loop.Now() + kRest, at_rest);
  if (!rests) {
    world.trace.Violation(absl::StrCat(
        "no rest within ", absl::FormatDuration(kRest),
        " after the last fault: ", AllUp(world) ? "a client" : "a server", " is not done"));
  }
  if (!broken()) Judge(world);
  return {.trace_hash = world.trace.hash(),
          .faults = world.trace.faults(),
          .violations = world.trace.violations(),
          .events = world.loop.events(),
          .updates = world.oracle.updates()};
}

}  // namespace dslide::simulation
