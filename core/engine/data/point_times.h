// When the points of a data set came, as a file says.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dslide {

// A line for each point, a whole number in [0, 2^32), in their order. [points]
// Errors: those of reading; InvalidArgument naming the line, or when there is not one for each
// point.
absl::StatusOr<std::vector<uint32_t>> ReadPointTimes(const std::string& path, int64_t num_points);

}  // namespace dslide
