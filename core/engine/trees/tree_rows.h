// The rows of one level of a label tree, or of all centroids, from the training points: a pure
// function of points, tree and options, row by row.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/trees/point_lists.h"
#include "core/engine/trees/row_solver.h"
#include "core/spec/tree_shape.h"

namespace dslide {

// A row that was made.
struct MadeRow {
  RowId row;
  std::string record;  // of sparse_row.h; "" for a row that is not to be, as it has no points
};

// Points, and what is computed from all of them once. Views outlive it. Immutable after
// construction, and thread-safe.
class TrainingPoints {
 public:
  TrainingPoints(std::vector<PointView> points, int64_t labels);

  PointViews points() const { return points_; }
  absl::Span<const float> squared_lengths() const { return squared_lengths_; }
  int64_t features() const { return features_; }  // above every feature
  const PointLists& by_label() const { return by_label_; }

 private:
  std::vector<PointView> points_;
  std::vector<float> squared_lengths_;
  int64_t features_ = 0;
  PointLists by_label_;
};

// The centroids of the labels in [first, last) for which wanted(row) holds.
std::vector<MadeRow> MakeCentroids(const TrainingPoints& points, const TreeShape& shape,
                                   int64_t first, int64_t last,
                                   const std::function<bool(RowId)>& wanted,
                                   Parallelism parallelism);

// A tree with its points. Immutable after construction, and thread-safe.
class TreePoints {
 public:
  // leaf_of: [labels]. All outlive it.
  TreePoints(const TrainingPoints& points, const TreeShape& shape,
             absl::Span<const uint32_t> leaf_of);

  // Solves the wanted rows of the children of the parents [first, last) at a level, label_level()
  // included. A label is told from the other points of its leaf, a cluster from those of its
  // parent.
  //   key : of the tree; the points of each parent draw their orders from it
  std::vector<MadeRow> Solve(int64_t tree, int64_t level, int64_t first, int64_t last,
                             const std::function<bool(RowId)>& wanted, RowSolverOptions options,
                             uint64_t key, Parallelism parallelism) const;

 private:
  struct Task {
    RowId row;
    int64_t parent;
    int64_t child;  // a label, or a cluster
  };

  std::vector<Task> Tasks(int64_t tree, int64_t level, int64_t first, int64_t last,
                          const std::function<bool(RowId)>& wanted) const;
  // The points of a label, or of a cluster at a level (-1: all that have labels), in no order and
  // some of them often.
  absl::Span<const uint32_t> PointsOf(int64_t level, int64_t child) const;
  // Those of a cluster, ascending, each once.
  void ListCluster(int64_t level, int64_t cluster, std::vector<uint32_t>& list) const;

  const TrainingPoints& points_;
  const TreeShape& shape_;
  PointLists by_leaf_;
  std::vector<uint32_t> label_offsets_;  // [leaves + 1]
  std::vector<uint32_t> labels_;         // by leaf, ascending
};

}  // namespace dslide
