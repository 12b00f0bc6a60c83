#include "tests/simulation/trace.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/counter_rng.h"

namespace dslide::simulation {
namespace {

// A run that breaks one promise usually breaks it again and again.
constexpr size_t kMostViolations = 20;

}  // namespace

void Trace::Note(absl::string_view what, std::initializer_list<int64_t> values) {
  hash_ = Mix64(hash_ ^ static_cast<uint64_t>(absl::ToInt64Nanoseconds(clock_.Now())));
  for (const char c : what) hash_ = hash_ * 0x100000001b3ULL ^ static_cast<uint8_t>(c);
  for (const int64_t value : values) hash_ = Mix64(hash_ ^ static_cast<uint64_t>(value));
  if (print_) Print(what, absl::StrJoin(values, " "));
}

void Trace::Note(Fault fault, std::initializer_list<int64_t> values) {
  ++faults_[static_cast<size_t>(fault)];
  Note(FaultName(fault), values);
}

void Trace::Violation(std::string what) {
  Note("VIOLATION");
  if (print_) Print("VIOLATION", what);
  if (violations_.size() >= kMostViolations) return;
  violations_.push_back(
      absl::StrFormat("at %.6f s: %s", absl::ToDoubleSeconds(clock_.Now()), what));
}

void Trace::Print(absl::string_view what, absl::string_view rest) const {
  absl::FPrintF(stderr, "%10.6f %s %s\n", absl::ToDoubleSeconds(clock_.Now()), what, rest);
}

}  // namespace dslide::simulation
