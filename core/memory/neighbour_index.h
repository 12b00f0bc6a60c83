// The nearest of a set of sparse points by inner product: the cosine where all have length 1.
//
// An inverted index: a list of (point, value) for each feature. The search is exact, and a sum runs
// over the query's features in ascending order, so a similarity is the same number on any shard,
// whatever other points lie beside it.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/memory/point_record.h"

namespace dslide {

struct Neighbour {
  uint32_t point = 0;
  float similarity = 0;  // > 0

  // Nearer first; of equally near ones the smaller id.
  friend bool operator<(const Neighbour& a, const Neighbour& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.point < b.point;
  }
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

// Thread safety: const functions are concurrent with each other, given scratch of their own; the
// caller excludes the rest.
class NeighbourIndex {
 public:
  // A thread's memory between searches.
  struct Scratch {
    std::vector<float> sums;  // [points]; all 0 between searches
    std::vector<uint32_t> touched;
    std::vector<Neighbour> found;
  };

  // Ids are added once each, in any order.
  void Add(uint32_t id, PointView point);
  void Clear();
  int64_t points() const { return points_; }
  int64_t memory_bytes() const;

  // The best `k` >= 0 with a similarity above 0, nearest first; fewer where there are fewer.
  //   features, values : of the query; strictly ascending, equally many
  //   left_out : a point that is no neighbour of the query, itself perhaps; kNobody: none
  // Cost: one multiply-add for each posting of the query's features.
  static constexpr uint32_t kNobody = 0xffffffff;
  absl::Span<const Neighbour> Search(absl::Span<const RowId> features,
                                     absl::Span<const float> values, int64_t k, uint32_t left_out,
                                     Scratch& scratch) const;

 private:
  struct Posting {
    uint32_t point;
    float value;
  };

  std::vector<std::vector<Posting>> postings_;  // by feature
  int64_t points_ = 0;
  uint32_t end_ = 0;  // above every id
  int64_t num_postings_ = 0;
};

}  // namespace dslide
