#include "core/spec/tree_shape.h"

namespace dslide {

TreeShape::TreeShape(Labels labels, int64_t trees, int64_t depth, int64_t level_step)
    : labels_(labels), trees_(trees), depth_(depth), rows_per_tree_(labels.base) {
  for (int64_t level = depth; level >= 2; level -= level_step) {
    levels_.insert(levels_.begin(), level);
  }
  if (levels_.empty() && depth == 1) levels_.push_back(1);
  for (const int64_t level : levels_) {
    level_rows_.push_back(rows_per_tree_);
    rows_per_tree_ += int64_t{1} << level;
  }
}

int64_t TreeShape::DepthFor(int64_t labels, int64_t leaf_labels) {
  int64_t depth = 0;
  while ((labels >> depth) > leaf_labels) ++depth;
  return depth;
}

RowId TreeShape::LabelRow(int64_t tree, RowId label) const {
  const int64_t number = label.value();
  if (number >= labels_.base) return Row(LaterRow(number) + 1 + tree);
  return Row(labels_.base + tree * rows_per_tree_ + number);
}

RowId TreeShape::ClusterRow(int64_t tree, int64_t level, int64_t cluster) const {
  return Row(labels_.base + tree * rows_per_tree_ + level_rows_[static_cast<size_t>(level)] +
             cluster);
}

RowId TreeShape::PieceRow(int64_t tree, int64_t piece) const {
  const int64_t base = PiecesOf(labels_.base);
  if (piece < base) return Row(tree * base + piece);
  return Row((trees_ + 1) * piece + tree);
}

TreeShape::Piece TreeShape::PieceAt(RowId row) const {
  const int64_t base = PiecesOf(labels_.base);
  const int64_t number = row.value();
  if (number < (trees_ + 1) * base) return {.tree = number / base, .piece = number % base};
  return {.tree = number % (trees_ + 1), .piece = number / (trees_ + 1)};
}

bool TreeShape::FitsPiece(int64_t piece, size_t bytes) const {
  const auto size = static_cast<int64_t>(bytes);
  return size % 4 == 0 && size >= 4 * BasePieceSize(piece) && size <= 4 * PieceSize(piece);
}

int64_t TreeShape::ParentsAt(int64_t level) const {
  if (level == label_level()) return leaves();
  return level == 0 ? 1 : int64_t{1} << levels_[static_cast<size_t>(level) - 1];
}

}  // namespace dslide
