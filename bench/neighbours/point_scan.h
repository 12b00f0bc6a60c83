// What the neighbour index is compared with: an inverted index whose lists are read to their ends.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/engine/memory/neighbour_index.h"

namespace dslide::bench {

// Finds exactly what NeighbourIndex::Search() of an exact search does. Not thread-safe.
class PointScan {
 public:
  // Ids are added once each, in ascending order from 0.
  void Add(PointView point);
  std::vector<Neighbour> Search(absl::Span<const RowId> features, absl::Span<const float> values,
                                int64_t k, uint32_t left_out);
  int64_t memory_bytes() const;

 private:
  struct Posting {
    uint32_t point;
    float value;
  };

  std::vector<std::vector<Posting>> lists_;  // by feature
  std::vector<float> sums_;                  // by point; 0 between searches
  std::vector<uint32_t> touched_;
};

}  // namespace dslide::bench
