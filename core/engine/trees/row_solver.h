// A linear classifier with sparse inputs by dual coordinate descent: L2-loss support vector
// machine, min |w|^2 / 2 + cost * sum max(0, 1 - y (w.x + b))^2, the bias as a weight of an input
// that is always 1. (Hsieh et al. 2008, "A dual coordinate descent method for large-scale linear
// SVM".) No learning rate; the order of the points is drawn from a key, so equal input gives equal
// bits.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/trees/sparse_row.h"

namespace dslide {

struct RowSolverOptions {
  double cost = 1;
  int64_t passes = 5;       // over the points, at most
  float drop_below = 0.1f;  // smaller weights are dropped at the end
};

// One thread's. Keeps its memory from row to row.
class RowSolver {
 public:
  // squared_lengths: [points] (SquaredLength); features: above every feature. Both outlive it.
  RowSolver(PointViews points, absl::Span<const float> squared_lengths, int64_t features,
            RowSolverOptions options);

  // The row, as a record of sparse_row.h, that tells `positive` from the rest of `all`.
  //   all : ids of points, ascending
  //   positive : a part of `all`, ascending, not empty
  std::string Solve(absl::Span<const uint32_t> all, absl::Span<const uint32_t> positive,
                    uint64_t key);

 private:
  struct Sample {
    const RowId* features;
    const BFloat16* values;
    uint32_t size;
    float sign;       // +1 or -1
    float alpha;      // its dual variable, >= 0
    float curvature;  // of the dual objective along alpha
  };

  void Prepare(absl::Span<const uint32_t> all, absl::Span<const uint32_t> positive);
  float Score(const Sample& sample) const;
  void Add(const Sample& sample, float amount);
  // One pass over the first `active` samples; returns the largest step, and how many stay active.
  float Pass(size_t& active);

  const PointViews points_;
  const absl::Span<const float> squared_lengths_;
  const RowSolverOptions options_;
  const float diagonal_;  // 1 / (2 cost)
  std::vector<Sample> samples_;
  DenseRow row_;
  float bias_ = 0;
};

}  // namespace dslide
