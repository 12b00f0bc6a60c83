// From the nearest training points to the labels that they speak for.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// A neighbour with its labels, as a shard answers. Does not own them.
struct LabelledNeighbour {
  uint32_t point = 0;
  float similarity = 0;
  absl::Span<const RowId> labels;
};

// The labels of the neighbours of one query, those with the larger share first; of equal ones the
// smaller label.
struct LabelVotes {
  std::vector<RowId> labels;
  // [labels]: the part of the neighbours' weight, similarity^power, that carries the label.
  std::vector<float> shares;
  // The same where each neighbour divides its weight among its labels; sums up to 1 over all labels
  // of the neighbours.
  std::vector<float> divided_shares;
  // As shares, of the squares of the weights: the nearest neighbours speak louder.
  std::vector<float> near_shares;
  float nearest = 0;  // similarity of the nearest neighbour; 0 without any
};

// Collects votes. Keeps its memory from query to query; not thread-safe.
class VoteCounter {
 public:
  VoteCounter(int64_t num_labels, double power, int64_t max_candidates);

  // neighbours : in any order; the votes do not depend on it
  // Labels at or above num_labels do not count. At most max_candidates are kept.
  void Count(absl::Span<const LabelledNeighbour> neighbours, LabelVotes& votes);

 private:
  struct Sums {
    double share = 0;
    double divided = 0;
    double near = 0;
  };

  double WeightOf(float similarity) const;

  const double power_;
  const int64_t max_candidates_;
  std::vector<LabelledNeighbour> sorted_;
  std::vector<Sums> sums_;  // [num_labels]; all 0 between queries
  std::vector<RowId> touched_;
};

}  // namespace dslide
