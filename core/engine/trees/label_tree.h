// A balanced binary tree of labels: labels with like centroids share a leaf.
//
// Each cluster is cut into two halves of equal size by spherical 2-means: of two labels drawn at
// random, then of the halves' own mean directions; a few rounds. (Prabhu et al. 2018, "Parabel",
// cut in the same way.)

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"

namespace dslide {

// The leaf of each label, [labels]; kNoLeaf for one without a centroid. Equal for any number of
// threads.
//   centroids : by label, records of sparse_row.h; "" for a label that occurs nowhere
//   features : above every column of the centroids
//   key : draws the first two labels of each cut
std::vector<uint32_t> BuildLabelTree(absl::Span<const std::string> centroids, int64_t features,
                                     int64_t depth, uint64_t key, Parallelism parallelism);

}  // namespace dslide
