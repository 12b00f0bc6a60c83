// Points of a dataset that follow each other.

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/engine/data/dataset.h"

namespace dslide {

// Replaces *batch by the points from `begin` on, `most` of them or those that there are. Returns
// their numbers. Errors: those of Dataset::ReadSamples().
inline absl::StatusOr<std::vector<int64_t>> ReadRun(const Dataset& data, int64_t begin,
                                                    int64_t most, SparseBatch* batch) {
  std::vector<int64_t> points(static_cast<size_t>(std::min(most, data.num_points() - begin)));
  std::iota(points.begin(), points.end(), begin);
  RETURN_IF_ERROR(data.ReadSamples(points, batch));
  return points;
}

}  // namespace dslide
