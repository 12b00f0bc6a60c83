#include "services/coordinator/control/checkpoint_scheduler.h"

#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

// How often the schedule looks whether it is time.
constexpr absl::Duration kSchedulePause = absl::Milliseconds(200);

}  // namespace

CheckpointScheduler::CheckpointScheduler(const CheckpointSchedule& schedule,
                                         const ClusterRegistry* registry,
                                         CheckpointControl* checkpoints, const Clock* clock)
    : schedule_(schedule),
      registry_(registry),
      checkpoints_(checkpoints),
      clock_(clock),
      due_(clock->Now() + schedule.PauseAfter(absl::ZeroDuration())) {}

int64_t CheckpointScheduler::AppliedCommands() const {
  int64_t sum = 0;
  for (const ShardInfo& shard : registry_->Shards()) sum += shard.applied_commands;
  return sum;
}

absl::Duration CheckpointScheduler::RunOnce() {
  // Without new work there is nothing new to keep.
  const int64_t before = AppliedCommands();
  if (clock_->Now() < due_ || before == applied_ || !registry_->Map().ok()) return kSchedulePause;
  WorkProgress progress;  // nobody looks at it
  const absl::StatusOr<Manifest> taken = checkpoints_->Take(progress);
  if (taken.ok()) {
    applied_ = before;
  } else {
    LogWarning("no cluster checkpoint was taken; trying again later",
               {{"error", taken.status().message()}});
  }
  due_ = clock_->Now() + schedule_.PauseAfter(checkpoints_->figures().view().mean_cost);
  return kSchedulePause;
}

}  // namespace dslide::coordinator
