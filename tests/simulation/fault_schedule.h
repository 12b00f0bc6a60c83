// Who is struck when: a function of the seed.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/increment_client.h"
#include "tests/simulation/trainer_client.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// The clients of a run, and how a killed one gets a successor. Not thread-safe.
struct Clients {
  std::vector<std::unique_ptr<IncrementClient>> increments;
  std::vector<std::unique_ptr<TrainerClient>> trainers;

  bool AllDone() const;
  void Settle();
};

// Not thread-safe.
class FaultSchedule {
 public:
  // Both outlive it.
  FaultSchedule(World& world, Clients& clients) : world_(world), clients_(clients) {}

  // Plans strikes until `end`.
  void Plan(absl::Duration end);
  // Everything may work from now on.
  void EndAll();

 private:
  void Strike();
  void StrikeShard();
  void StrikeDisk();
  void StrikeNetwork();
  void StrikeCoordinator();
  void StrikeClient();
  int AnyShard() { return static_cast<int>(world_.rng.NextBelow(world_.shards.size())); }

  World& world_;
  Clients& clients_;
};

}  // namespace dslide::simulation
