#include "core/spec/tree_shape.h"

namespace dslide {

TreeShape::TreeShape(int64_t labels, int64_t trees, int64_t depth, int64_t level_step)
    : labels_(labels), trees_(trees), depth_(depth), rows_per_tree_(labels) {
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
  return RowId(static_cast<uint32_t>(labels_ + tree * rows_per_tree_ + label.value()));
}

RowId TreeShape::ClusterRow(int64_t tree, int64_t level, int64_t cluster) const {
  return RowId(static_cast<uint32_t>(labels_ + tree * rows_per_tree_ +
                                     level_rows_[static_cast<size_t>(level)] + cluster));
}

int64_t TreeShape::ParentsAt(int64_t level) const {
  if (level == label_level()) return leaves();
  return level == 0 ? 1 : int64_t{1} << levels_[static_cast<size_t>(level) - 1];
}

}  // namespace dslide
