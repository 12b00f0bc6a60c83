// One run: a cluster, its clients and its faults, all of one seed.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/fault_counts.h"
#include "tests/simulation/settings.h"

namespace dslide::simulation {

struct Outcome {
  uint64_t trace_hash = 0;
  FaultCounts faults = {};
  std::vector<std::string> violations;
  int64_t events = 0;
  int64_t updates = 0;  // that clients have sent
};

// Equal settings, equal outcome.
Outcome Simulate(const Settings& settings);

}  // namespace dslide::simulation
