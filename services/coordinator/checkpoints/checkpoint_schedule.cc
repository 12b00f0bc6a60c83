#include "services/coordinator/checkpoints/checkpoint_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/units.h"

namespace dslide::coordinator {

absl::Duration CheckpointSchedule::PauseAfter(absl::Duration cost) const {
  if (mode == Mode::kFixed) return interval;
  const double product =
      absl::ToDoubleSeconds(cost) * absl::ToDoubleSeconds(mean_time_between_failures);
  return std::clamp(absl::Seconds(std::sqrt(2.0 * product)), kShortest, kLongest);
}

void CheckpointCosts::Add(absl::Duration cost) {
  last_.push_back(cost);
  if (last_.size() > round_) last_.pop_front();
}

absl::Duration CheckpointCosts::Mean() const {
  if (last_.empty()) return absl::ZeroDuration();
  return std::accumulate(last_.begin(), last_.end(), absl::ZeroDuration()) / last_.size();
}

absl::StatusOr<CheckpointSchedule> ParseCheckpointSchedule(absl::string_view text) {
  CheckpointSchedule schedule;
  if (text == "off") return schedule;
  schedule.mode = CheckpointSchedule::Mode::kAuto;
  if (text == "auto") return schedule;
  schedule.mode = CheckpointSchedule::Mode::kFixed;
  const absl::StatusOr<absl::Duration> interval = ParseDuration(text);
  if (interval.ok() && *interval >= absl::Seconds(1)) {
    schedule.interval = *interval;
    return schedule;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint-interval is \"", text,
                   "\", must be off, auto, or a duration of at least 1s, such as 10m"));
}

absl::StatusOr<absl::Duration> ParseScrubInterval(absl::string_view text) {
  if (text == "off") return absl::ZeroDuration();
  const absl::StatusOr<absl::Duration> interval = ParseDuration(text);
  if (interval.ok() && *interval >= absl::Seconds(1)) return *interval;
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint-scrub-interval is \"", text,
                   "\", must be off, or a duration of at least 1s, such as 24h"));
}

}  // namespace dslide::coordinator
