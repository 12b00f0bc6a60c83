#include "bench/common/round_budget.h"

#include <algorithm>

namespace dslide::bench {

RoundBudget::RoundBudget(const Clock& clock, absl::Duration time)
    : clock_(clock), time_(time), start_(clock.Now()), round_start_(start_) {}

bool RoundBudget::Next() {
  const absl::Duration now = clock_.Now();
  if (rounds_ > 0) {
    longest_ = std::max(longest_, now - round_start_);
    if (now - start_ + longest_ > time_) return false;
  }
  round_start_ = now;
  ++rounds_;
  return true;
}

}  // namespace dslide::bench
