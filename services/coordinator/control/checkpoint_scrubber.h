// Reads committed cluster checkpoints again, long before somebody needs one: disks forget, and a
// checkpoint that nobody reads is not known to be there.

#pragma once

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/coordinator/control/checkpoint_control.h"
#include "services/coordinator/control/cluster_registry.h"

namespace dslide::coordinator {

// Not thread-safe: one loop has it.
class CheckpointScrubber {
 public:
  // What is passed outlives it.
  CheckpointScrubber(absl::Duration interval, const ClusterRegistry* registry,
                     CheckpointControl* checkpoints, const Clock* clock);

  // Verifies all if it is time. Returns how long to wait before the next call.
  absl::Duration RunOnce();

 private:
  // Returns whether every one could be looked at.
  bool VerifyAll();

  const absl::Duration interval_;
  const ClusterRegistry* const registry_;
  CheckpointControl* const checkpoints_;
  const Clock* const clock_;
  absl::Duration due_;
};

}  // namespace dslide::coordinator
