// Linear classifiers with sparse inputs by dual coordinate descent: L2-loss support vector
// machines, min |w|^2 / 2 + cost * sum max(0, 1 - y (w.x + b))^2, the bias as a weight of an input
// that is always 1. (Hsieh et al. 2008, "A dual coordinate descent method for large-scale linear
// SVM".) No learning rate; the order of the points is drawn from a key, so equal input gives equal
// bits. Rows of the same points are solved side by side, and none knows of the others.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/engine/math/kernels_dual.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/trees/gathered_points.h"

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

  // The points that the next rows are solved from: ids, each once. key: of their orders.
  void SetPoints(absl::Span<const uint32_t> all, uint64_t key);
  // Rows, as records of sparse_row.h, each of which tells some of the points from the rest.
  //   positives : [rows], at most kDualRows: ids of such points, in any order
  std::vector<std::string> Solve(absl::Span<const absl::Span<const uint32_t>> positives);

 private:
  void Prepare(absl::Span<const absl::Span<const uint32_t>> positives);
  absl::Span<const uint32_t> OrderOf(int64_t pass);
  // The rows of `live` that have settled; those that have done so without some of their points look
  // at all of them again instead.
  DualRowSet Settled(DualRowSet live, const DualLine& largest);
  std::vector<std::string> Encode(size_t rows);

  const RowSolverOptions options_;
  const float diagonal_;  // 1 / (2 cost)
  GatheredPoints points_;
  uint64_t key_ = 0;
  std::vector<std::vector<uint32_t>> orders_;  // of the first passes, [points] each
  size_t num_orders_ = 0;                      // of these points
  std::vector<DualLine> weights_;              // [columns]
  DualLine bias_;
  std::vector<DualLine> alphas_;      // [points]
  std::vector<DualRowSet> positive_;  // [points]
  std::vector<DualRowSet> active_;    // [points]
  std::vector<DualRowSet> kept_;      // [columns]
};

}  // namespace dslide
