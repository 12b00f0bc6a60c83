// A trainer: takes leases of work from the coordinator and drives steps on all shards, a few at a
// time. Each step adds 1 to its row on every shard.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "services/coordinator/jobs/job.h"
#include "tests/simulation/step_session.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// Not thread-safe.
class TrainerClient {
 public:
  // `world` outlives it.
  TrainerClient(World& world, Place place, int64_t in_flight);

  void Start();
  void Kill();
  void Pause(absl::Duration time) { node_->Pause(time); }
  bool alive() const { return node_->alive(); }
  void Settle();
  bool done() const;

 private:
  struct Step {
    int phase = 0;      // of kPhases
    bool ready = true;  // to be sent
    int waiting = 0;    // shards whose answer to it is missing
  };

  void Begin();
  void BeginAnew(Telling what, int shard);
  void AskForWork(bool wants_work);
  void OnWork(const Work& work);
  void Go();
  // Sends what is ready, each phase in the order of the steps.
  void SendReady();
  void SendPhase(int64_t number);
  StepOp OpOf(int phase, int shard) const;
  void OnAnswer(int64_t number);
  void Renew();

  World& world_;
  const NodePtr node_;
  const int64_t in_flight_;
  int64_t lives_ = 0;
  ClientId id_ = {};
  std::vector<Cell> rows_;  // by shard
  std::vector<std::unique_ptr<StepSession>> sessions_;
  std::vector<std::unique_ptr<StepSession>> past_;
  std::map<int64_t, Step> open_;  // by number
  int64_t next_step_ = 1;
  ChunkWork chunk_;         // lease 0: none
  int64_t chunk_left_ = 0;  // steps not begun
  std::vector<LeaseReport> finished_;
  bool asking_ = false;
  bool over_ = false;  // there is no more work, or no more rows
};

}  // namespace dslide::simulation
