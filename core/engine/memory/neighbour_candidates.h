// Points that may be among the k nearest, while a search goes on: each with bounds of its
// similarity.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/engine/memory/kth_floor.h"

namespace dslide {

// Not thread-safe. Keeps its memory from search to search.
class NeighbourCandidates {
 public:
  struct Candidate {
    float upper;  // the similarity is at most this
    float lower;  // and at least this
    uint32_t number;

    bool known() const { return lower == upper; }
  };

  void Start(int64_t k);
  void Push(Candidate candidate) {
    floor_.Add(candidate.lower);
    candidates_.push_back(candidate);
  }

  // At least k points are this near, or nearer. Minus infinity as long as there are not as many.
  float floor() const { return floor_.value(); }
  // Those whose upper bound reaches the floor, the largest one first.
  absl::Span<const Candidate> Sorted();

 private:
  KthFloor floor_;
  std::vector<Candidate> candidates_;
};

}  // namespace dslide
