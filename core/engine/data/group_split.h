// Points held out in whole groups, so that none that is left is nearly one of them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dslide {

// The groups of points, one line a point: any text. [points], numbered by first occurrence.
// Errors: those of reading; InvalidArgument when there is not one line for each point.
absl::StatusOr<std::vector<uint32_t>> ReadGroups(const std::string& path, int64_t num_points);

// Which points are held out, [points]: groups in an order drawn from the seed, until `fraction` of
// the points or `max_points` (0: no bound) would be passed. Groups of more than a twentieth of that
// come last: one would speak for many. A pure function of its arguments.
std::vector<uint8_t> HoldOutGroups(absl::Span<const uint32_t> groups, uint64_t seed,
                                   double fraction, int64_t max_points);

}  // namespace dslide
