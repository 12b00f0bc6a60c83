// Time as a dependency. Only deadlines, progress and metrics may use it, never a decision about
// state.

#pragma once

#include "absl/time/time.h"

namespace dslide {

// Monotonic time since an unspecified start. Thread safety: safe from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back, and is not moved by changes of the wall clock.
  virtual absl::Duration Now() const = 0;
};

// The process's monotonic clock (CLOCK_MONOTONIC). Never destroyed.
const Clock& SteadyClock();

}  // namespace dslide
