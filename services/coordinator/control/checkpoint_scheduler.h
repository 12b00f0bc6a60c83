// Takes cluster checkpoints without being asked for.

#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/coordinator/checkpoints/checkpoint_schedule.h"
#include "services/coordinator/control/checkpoint_control.h"
#include "services/coordinator/control/cluster_registry.h"

namespace dslide::coordinator {

// Not thread-safe: one loop has it.
class CheckpointScheduler {
 public:
  // What is passed outlives it.
  CheckpointScheduler(const CheckpointSchedule& schedule, const ClusterRegistry* registry,
                      CheckpointControl* checkpoints, const Clock* clock);

  // Takes one if it is time and there was work since the last. Returns how long to wait before the
  // next call.
  absl::Duration RunOnce();

 private:
  int64_t AppliedCommands() const;

  const CheckpointSchedule schedule_;
  const ClusterRegistry* const registry_;
  CheckpointControl* const checkpoints_;
  const Clock* const clock_;
  absl::Duration due_;
  int64_t applied_ = 0;  // commands, before the last one
};

}  // namespace dslide::coordinator
