// How long tests wait for an event.

#pragma once

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dslide {

// After so long without the event, a wait is a hang. Nothing that a test waits for takes as long on
// a busy machine or under a sanitizer; ctest's limit is above it (cmake/DslideTargets.cmake).
inline constexpr absl::Duration kPatience = absl::Minutes(2);

// The deadline of a call that has to be answered.
inline std::chrono::system_clock::time_point PatientDeadline() {
  return absl::ToChronoTime(absl::Now() + kPatience);
}

// Whether the condition came true.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

}  // namespace dslide
