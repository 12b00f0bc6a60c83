// Which row of a table of sparse rows belongs to what: centroids of labels, and the labels and
// clusters of label trees.
//
//   [0, labels)                       the centroid of each label
//   then for each tree:  [labels]     the row of each label
//                        [2^level]    the rows of the clusters, for each level that is used
//   then for each label that the model has grown by: its centroid, and its row in each tree
//
// So a row that is there stays where it is when labels come: the first two are of the labels for
// which the model was made.
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
  struct Labels {
    int64_t now = 0;   // >= base
    int64_t base = 0;  // for which the model was made, >= 1
  };

  // trees >= 0; depth in [0, 30]; level_step >= 1.
  TreeShape(Labels labels, int64_t trees, int64_t depth, int64_t level_step);
  // Of a model that has the labels for which it was made.
  TreeShape(int64_t labels, int64_t trees, int64_t depth, int64_t level_step)
      : TreeShape({.now = labels, .base = labels}, trees, depth, level_step) {}

  // The smallest depth with at most `leaf_labels` labels a leaf.
  static int64_t DepthFor(int64_t labels, int64_t leaf_labels);

  int64_t labels() const { return labels_.now; }
  int64_t base_labels() const { return labels_.base; }
  int64_t trees() const { return trees_; }
  int64_t depth() const { return depth_; }
  int64_t leaves() const { return int64_t{1} << depth_; }
  // The levels of clusters, ascending; the labels are the level behind them.
  absl::Span<const int64_t> levels() const { return levels_; }
  int64_t label_level() const { return static_cast<int64_t>(levels_.size()); }
  int64_t num_rows() const { return LaterRow(labels_.now); }

  RowId CentroidRow(RowId label) const {
    return label.value() < labels_.base ? label : Row(LaterRow(label.value()));
  }
  RowId LabelRow(int64_t tree, RowId label) const;
  // level: index in levels(); cluster in [0, 2^levels()[level]).
  RowId ClusterRow(int64_t tree, int64_t level, int64_t cluster) const;
  // The cluster of a leaf at a level.
  int64_t ClusterOf(int64_t level, uint32_t leaf) const {
    return leaf >> (depth_ - levels_[static_cast<size_t>(level)]);
  }

  // The table of the trees themselves: their leaves of all labels, u32 each, and behind them the
  // number of points of each label, u32 each; in pieces of kPieceLabels labels. Pieces that a model
  // has grown by lie behind those of all trees. Of the labels that it has grown by, a piece may
  // lack the last ones: those hang at no leaf, and have no points.
  static constexpr int64_t kPieceLabels = 65536;
  int64_t pieces() const { return PiecesOf(labels_.now); }
  int64_t num_piece_rows() const { return (trees_ + 1) * pieces(); }
  // tree == trees(): the numbers of points.
  RowId PieceRow(int64_t tree, int64_t piece) const;
  struct Piece {
    int64_t tree = 0;
    int64_t piece = 0;
  };
  Piece PieceAt(RowId row) const;
  // Labels of a piece, and those that it has in any case.
  int64_t PieceSize(int64_t piece) const { return PieceSize(labels_.now, piece); }
  int64_t BasePieceSize(int64_t piece) const { return PieceSize(labels_.base, piece); }
  // Whether so many bytes may be the record of a piece; 0: it is not there.
  bool FitsPiece(int64_t piece, size_t bytes) const;

  // The nodes at a level whose rows are solved against each other are the children of one parent: a
  // cluster of the level before, the root, or for labels their leaf.
  int64_t ParentsAt(int64_t level) const;

 private:
  static RowId Row(int64_t row) { return RowId(static_cast<uint32_t>(row)); }
  static int64_t PiecesOf(int64_t labels) { return (labels + kPieceLabels - 1) / kPieceLabels; }
  static int64_t PieceSize(int64_t labels, int64_t piece) {
    return std::clamp<int64_t>(labels - piece * kPieceLabels, 0, kPieceLabels);
  }
  // The first row of a label from labels_.base on.
  int64_t LaterRow(int64_t label) const {
    return labels_.base + trees_ * rows_per_tree_ + (label - labels_.base) * (1 + trees_);
  }

  Labels labels_;
  int64_t trees_;
  int64_t depth_;
  std::vector<int64_t> levels_;
  std::vector<int64_t> level_rows_;  // first row of each level, behind the labels of the tree
  int64_t rows_per_tree_;
};

}  // namespace dslide
