// When cluster checkpoints are taken without being asked for.

#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide::coordinator {

struct CheckpointSchedule {
  enum class Mode {
    kOff,
    kFixed,  // every `interval`
    kAuto,   // as often as pays: after sqrt(2 * cost of one * mean time between failures)
  };
  Mode mode = Mode::kOff;
  absl::Duration interval = absl::Minutes(10);
  absl::Duration mean_time_between_failures = absl::Hours(1);

  // From the end of one to the beginning of the next. cost: what one takes; zero before the first.
  // J. W. Young's first-order optimum (CACM 1974), from kShortest to kLongest.
  absl::Duration PauseAfter(absl::Duration cost) const;
  static constexpr absl::Duration kShortest = absl::Seconds(10);
  static constexpr absl::Duration kLongest = absl::Hours(1);
};

// What the last checkpoints took. Those with all rows take much longer than the increments between
// them; over one round of them the mean is what a checkpoint costs.
class CheckpointCosts {
 public:
  // round: from one with all rows to the next, >= 1.
  explicit CheckpointCosts(size_t round = 1) : round_(round) {}
  void Add(absl::Duration cost);
  // Zero before the first.
  absl::Duration Mean() const;

 private:
  size_t round_;
  std::deque<absl::Duration> last_;
};

// "off", "auto", or a duration of at least one second.
// Errors: InvalidArgument.
absl::StatusOr<CheckpointSchedule> ParseCheckpointSchedule(absl::string_view text);

// How often committed checkpoints are verified: "off" (zero), or a duration of at least one second.
// Errors: InvalidArgument.
absl::StatusOr<absl::Duration> ParseScrubInterval(absl::string_view text);

}  // namespace dslide::coordinator
