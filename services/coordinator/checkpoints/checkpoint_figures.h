// What this process knows of the cluster checkpoints that it has taken and verified.

#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "services/coordinator/checkpoints/checkpoint_schedule.h"
#include "services/coordinator/checkpoints/manifest.h"

namespace dslide::coordinator {

// For schedules, metrics and people. Thread safety: safe from any thread.
class CheckpointFigures {
 public:
  struct View {
    uint64_t last_checkpoint_id = 0;  // committed by this process; 0: none yet
    absl::Duration age;               // since that one, or the start
    int64_t failures = 0;             // begun and not committed
    absl::Duration scrub_age;         // since all were last verified, or the start
    absl::Duration mean_cost;         // of the last ones; zero before the first
  };

  // full_every: of ClusterCheckpointOptions. `clock` and `metrics` outlive it.
  CheckpointFigures(int64_t full_every, const Clock* clock, Metrics* metrics);
  ~CheckpointFigures();

  void AddTaken(const Manifest& manifest);
  void AddFailure();
  void SetDamaged(int64_t checkpoints);
  // All were verified just now.
  void SetScrubbed();
  View view() const;

 private:
  struct Sum {
    int64_t checkpoints = 0;
    int64_t bytes = 0;  // that shards wrote for them
  };
  struct State {
    uint64_t last_checkpoint_id = 0;
    absl::Duration last = {};  // when, or the start
    absl::Duration duration = {};
    absl::Duration stall = {};
    int64_t failures = 0;
    absl::Duration scrubbed = {};
    int64_t damaged = 0;
    Sum full = {};         // every shard wrote all rows
    Sum incremental = {};  // some shard built on the one before
    CheckpointCosts costs = CheckpointCosts();
  };
  // Called under the lock.
  using Read = double (*)(const State&, absl::Duration now);
  void AddGauges();
  void AddCounters();

  const Clock* const clock_;  // self-synchronised
  Metrics* const metrics_;    // self-synchronised
  mutable absl::Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::coordinator
