// Which row of a table of sparse rows belongs to what: centroids of labels, and the labels and
// clusters of label trees.
//
//   [0, labels)                       the centroid of each label
//   then for each tree:  [labels]     the row of each label
//                        [2^level]    the rows of the clusters, for each level that is used
//
// A tree is binary and balanced, `depth` levels deep: label l hangs at a leaf, and its cluster at a
// level is leaf >> (depth - level). Levels used: depth, depth - level_step, ..., down to 2; those
// between hold nothing but structure.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// Leaf of a label that occurs nowhere.
inline constexpr uint32_t kNoLeaf = 0xffffffff;

// Immutable and thread-safe.
class TreeShape {
 public:
  // labels >= 1; trees >= 0; depth in [0, 30]; level_step >= 1.
  TreeShape(int64_t labels, int64_t trees, int64_t depth, int64_t level_step);

  // The smallest depth with at most `leaf_labels` labels a leaf.
  static int64_t DepthFor(int64_t labels, int64_t leaf_labels);

  int64_t labels() const { return labels_; }
  int64_t trees() const { return trees_; }
  int64_t depth() const { return depth_; }
  int64_t leaves() const { return int64_t{1} << depth_; }
  // The levels of clusters, ascending; the labels are the level behind them.
  absl::Span<const int64_t> levels() const { return levels_; }
  int64_t label_level() const { return static_cast<int64_t>(levels_.size()); }
  int64_t num_rows() const { return labels_ + trees_ * rows_per_tree_; }

  RowId CentroidRow(RowId label) const { return label; }
  RowId LabelRow(int64_t tree, RowId label) const;
  // level: index in levels(); cluster in [0, 2^levels()[level]).
  RowId ClusterRow(int64_t tree, int64_t level, int64_t cluster) const;
  // The cluster of a leaf at a level.
  int64_t ClusterOf(int64_t level, uint32_t leaf) const {
    return leaf >> (depth_ - levels_[static_cast<size_t>(level)]);
  }

  // The table of the trees themselves: their leaves of all labels, u32 each, and behind them the
  // number of points of each label, u32 each; in pieces of kPieceLabels labels.
  static constexpr int64_t kPieceLabels = 65536;
  int64_t pieces() const { return (labels_ + kPieceLabels - 1) / kPieceLabels; }
  int64_t num_piece_rows() const { return (trees_ + 1) * pieces(); }
  // tree == trees(): the numbers of points.
  RowId PieceRow(int64_t tree, int64_t piece) const {
    return RowId(static_cast<uint32_t>(tree * pieces() + piece));
  }
  // Labels of a piece.
  int64_t PieceSize(int64_t piece) const {
    return std::min(kPieceLabels, labels_ - piece * kPieceLabels);
  }

  // The nodes at a level whose rows are solved against each other are the children of one parent: a
  // cluster of the level before, the root, or for labels their leaf.
  int64_t ParentsAt(int64_t level) const;

 private:
  int64_t labels_;
  int64_t trees_;
  int64_t depth_;
  std::vector<int64_t> levels_;
  std::vector<int64_t> level_rows_;  // first row of each level, behind the labels of the tree
  int64_t rows_per_tree_;
};

}  // namespace dslide
