// Which of many estimates are the largest, in linear time.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace dslide {

// Keeps its memory. Not thread-safe.
struct LargestScratch {
  std::vector<uint32_t> counts;      // estimates by their first bits
  std::vector<uint32_t> candidates;  // places
  std::vector<uint32_t> ties;        // places
};

// Overwrites `places` with those of the `count` largest estimates, or of all where there are no
// more, ascending. Of equal ones the smaller place. A NaN is beyond the infinity of its sign.
void FindLargest(absl::Span<const float> estimates, int64_t count, LargestScratch& scratch,
                 std::vector<uint32_t>& places);

}  // namespace dslide
