#include "services/coordinator/control/checkpoint_scrubber.h"

#include <algorithm>
#include <vector>

#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

// How often the scrubber looks whether it is time.
constexpr absl::Duration kScrubPause = absl::Milliseconds(200);
// After a pass that could not look at everything, or at once when passes come more often than that.
constexpr absl::Duration kScrubAgain = absl::Minutes(10);

}  // namespace

CheckpointScrubber::CheckpointScrubber(absl::Duration interval, const ClusterRegistry* registry,
                                       CheckpointControl* checkpoints, const Clock* clock)
    : interval_(interval),
      registry_(registry),
      checkpoints_(checkpoints),
      clock_(clock),
      due_(clock->Now() + interval) {}

bool CheckpointScrubber::VerifyAll() {
  const absl::StatusOr<std::vector<uint64_t>> checkpoint_ids = checkpoints_->Ids();
  if (!checkpoint_ids.ok()) return false;
  bool complete = true;
  for (const uint64_t checkpoint_id : *checkpoint_ids) {
    WorkProgress progress;                              // nobody looks at it
    absl::Status verified = registry_->Map().status();  // not while the cluster goes back
    if (verified.ok()) verified = checkpoints_->Verify(checkpoint_id, progress).status();
    if (verified.ok() || absl::IsDataLoss(verified) || absl::IsNotFound(verified)) continue;
    complete = false;
    LogWarning("a cluster checkpoint could not be verified; trying again later",
               {{"checkpoint_id", checkpoint_id}, {"error", verified.message()}});
  }
  return complete;
}

absl::Duration CheckpointScrubber::RunOnce() {
  if (clock_->Now() < due_) return kScrubPause;
  const absl::Duration start = clock_->Now();
  const bool complete = VerifyAll();
  due_ = clock_->Now() + (complete ? interval_ : std::min(kScrubAgain, interval_));
  if (!complete) return kScrubPause;
  LogInfo("cluster checkpoints verified",
          {{"duration", absl::FormatDuration(clock_->Now() - start)}});
  checkpoints_->figures().SetScrubbed();
  return kScrubPause;
}

}  // namespace dslide::coordinator
