// The centroid of a label: the sum of the inputs of its points, scaled to length 1.

#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/trees/sparse_row.h"

namespace dslide {

// Entries of a centroid below this magnitude are dropped: they decide nothing, and most are below.
inline constexpr float kCentroidDropBelow = 0.03f;

// The centroid of `mine`, ids of points, as a record (sparse_row.h) without bias. `scratch` is all
// 0 before and after, and has room for every feature.
std::string CentroidRecord(PointViews points, absl::Span<const uint32_t> mine, DenseRow& scratch);

}  // namespace dslide
