// How many rounds of measurements a time has room for.

#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "core/base/clock.h"

namespace dslide::bench {

// Deals out a time in rounds, each of which measures everything once: what the machine does to one
// of them it does to all alike. Not thread-safe.
class RoundBudget {
 public:
  // The time begins now. `clock` is borrowed.
  RoundBudget(const Clock& clock, absl::Duration time);

  // Ends a round and tells whether to begin another: the first in any case, a further one when what
  // is left is as long as the longest so far.
  bool Next();

  int64_t rounds() const { return rounds_; }  // begun
  absl::Duration Used() const { return clock_.Now() - start_; }

 private:
  const Clock& clock_;
  const absl::Duration time_;
  const absl::Duration start_;
  absl::Duration round_start_;
  absl::Duration longest_;
  int64_t rounds_ = 0;
};

}  // namespace dslide::bench
