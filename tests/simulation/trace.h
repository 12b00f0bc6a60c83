// Everything that happens in a simulation, as a hash and, for people, as lines on stderr.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "tests/simulation/fault_counts.h"

namespace dslide::simulation {

// Not thread-safe.
class Trace {
 public:
  // `clock` outlives it.
  Trace(const Clock& clock, bool print) : clock_(clock), print_(print) {}

  // Something happened; equal runs note the same things in the same order.
  void Note(absl::string_view what, std::initializer_list<int64_t> values = {});
  void Note(Fault fault, std::initializer_list<int64_t> values = {});

  // A promise was broken.
  void Violation(std::string what);

  uint64_t hash() const { return hash_; }
  const FaultCounts& faults() const { return faults_; }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  void Print(absl::string_view what, absl::string_view rest) const;

  const Clock& clock_;
  const bool print_;
  uint64_t hash_ = 0;
  FaultCounts faults_ = {};
  std::vector<std::string> violations_;
};

}  // namespace dslide::simulation
