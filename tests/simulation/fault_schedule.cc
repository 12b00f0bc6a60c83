#include "tests/simulation/fault_schedule.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/coordinator_process.h"
#include "tests/simulation/nodes/shard_host.h"

namespace dslide::simulation {
namespace {

constexpr int kUpdatesOfSuccessor = 6;

}  // namespace

bool Clients::AllDone() const {
  const auto done = [](const auto& client) { return !client->alive() || client->done(); };
  return std::all_of(increments.begin(), increments.end(), done) &&
         std::all_of(trainers.begin(), trainers.end(), done);
}

void Clients::Settle() {
  for (const auto& client : increments) {
    if (client->alive()) client->Settle();
  }
  for (const auto& client : trainers) {
    if (client->alive()) client->Settle();
  }
}

void FaultSchedule::Plan(absl::Duration end) {
  // Some runs have a bad network, some a bad machine room, some both.
  NetworkRates rates;
  constexpr double kLoss[] = {0, 0, 0.01, 0.03};
  constexpr double kDelay[] = {0, 0.02, 0.1};
  rates.lose = kLoss[world_.rng.NextBelow(4)];
  rates.delay = kDelay[world_.rng.NextBelow(3)];
  world_.network.set_rates(rates);
  const uint64_t strikes = 1 + world_.rng.NextBelow(10);
  for (uint64_t i = 0; i < strikes; ++i) {
    world_.loop.At(world_.Between(absl::Milliseconds(40), end), [this] { Strike(); });
  }
}

void FaultSchedule::EndAll() {
  world_.faults_on = false;
  world_.network.HealAll();
  world_.network.set_rates(NetworkRates());
  for (const auto& shard : world_.shards) {
    shard->disk().log.full = shard->disk().log.sync_fails = false;
    shard->disk().parts.full = false;
  }
}

void FaultSchedule::Strike() {
  const uint64_t what = world_.rng.NextBelow(10);
  if (what < 3) return StrikeShard();
  if (what < 5) return StrikeDisk();
  if (what < 7) return StrikeNetwork();
  if (what < 8) return StrikeCoordinator();
  StrikeClient();
}

void FaultSchedule::StrikeShard() {
  const int number = AnyShard();
  ShardHost& host = *world_.shards[static_cast<size_t>(number)];
  if (!host.up()) return;
  const absl::Duration pause = world_.Between(absl::Milliseconds(30), absl::Milliseconds(400));
  switch (world_.rng.NextBelow(5)) {
    case 0:
    case 1:
      world_.trace.Note(Fault::kShardKill, {number});
      return host.Crash(/*power=*/false, pause);
    case 2:
      world_.trace.Note(Fault::kShardPowerLoss, {number});
      return host.Crash(/*power=*/true, pause);
    case 3:
      // A log has a lock: nobody else can take it over.
      if (world_.settings.mode != shard::Durability::kCheckpoint) return;
      world_.trace.Note(Fault::kShardReplaced, {number});
      return host.Replace();
    default:
      world_.trace.Note(Fault::kShardPause, {number});
      return host.process()->node()->Pause(pause);
  }
}

void FaultSchedule::StrikeDisk() {
  const auto number = static_cast<size_t>(AnyShard());
  ShardDisk& disk = world_.shards[number]->disk();
  const absl::Duration time = world_.Between(absl::Milliseconds(20), absl::Milliseconds(200));
  switch (world_.rng.NextBelow(3)) {
    case 0:
      disk.log.full = true;
      world_.loop.After(time, [&disk] { disk.log.full = false; });
      return;
    case 1:
      disk.parts.full = true;
      world_.loop.After(time, [&disk] { disk.parts.full = false; });
      return;
    default:
      disk.log.sync_fails = true;
  }
}

void FaultSchedule::StrikeNetwork() {
  const auto places = static_cast<uint64_t>(world_.coordinator_place()) + 4;
  const auto a = static_cast<Place>(world_.rng.NextBelow(places));
  const auto b = static_cast<Place>(world_.rng.NextBelow(world_.shards.size()));
  if (a == b) return;
  const bool both = world_.Chance(0.5);
  world_.trace.Note(both ? Fault::kPartition : Fault::kOneWayPartition, {a, b});
  const bool forth = both || world_.Chance(0.5);
  const bool back = both || !forth;
  if (forth) world_.network.Separate(a, b);
  if (back) world_.network.Separate(b, a);
  world_.loop.After(world_.Between(absl::Milliseconds(20), absl::Milliseconds(400)), [this, a, b] {
    world_.network.Heal(a, b);
    world_.network.Heal(b, a);
  });
}

void FaultSchedule::StrikeCoordinator() {
  CoordinatorHost& host = *world_.coordinator;
  if (!host.up()) return;
  const absl::Duration pause = world_.Between(absl::Milliseconds(30), absl::Milliseconds(400));
  switch (world_.rng.NextBelow(3)) {
    case 0:
      world_.trace.Note(Fault::kCoordinatorKill);
      return host.Kill(pause);
    case 1:
      world_.trace.Note(Fault::kCoordinatorPause);
      return host.process().node()->Pause(pause);
    default: {
      CoordinatorProcess* const process = &host.process();
      if (host.disk().manifests.files.empty()) return;
      world_.trace.Note(Fault::kOperatorRestore);
      Node::After(process->node(), absl::ZeroDuration(),
                  [process] { process->RestoreForPerson(); });
    }
  }
}

void FaultSchedule::StrikeClient() {
  const absl::Duration pause = world_.Between(absl::Milliseconds(30), absl::Milliseconds(600));
  const bool kill = world_.Chance(0.4);
  const bool trainer = world_.Chance(0.5);
  world_.trace.Note(kill ? Fault::kClientKill : Fault::kClientPause, {trainer ? 1 : 0});
  if (trainer) {
    TrainerClient& client = *clients_.trainers[world_.rng.NextBelow(clients_.trainers.size())];
    if (!kill) return client.Pause(pause);
    if (!client.alive()) return;
    client.Kill();
    clients_.trainers.push_back(
        std::make_unique<TrainerClient>(world_, world_.coordinator_place() + 1, 2));
    return clients_.trainers.back()->Start();
  }
  IncrementClient& client = *clients_.increments[world_.rng.NextBelow(clients_.increments.size())];
  if (!kill) return client.Pause(pause);
  if (!client.alive()) return;
  client.Kill();
  clients_.increments.push_back(std::make_unique<IncrementClient>(
      world_, world_.coordinator_place() + 2, kUpdatesOfSuccessor));
  clients_.increments.back()->Start();
}

}  // namespace dslide::simulation
