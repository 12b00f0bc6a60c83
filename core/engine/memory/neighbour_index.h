// The nearest of a set of sparse points by inner product: the cosine where all have length 1.
//
// An inverted index whose lists have the largest values first, in segments of 65,536 points: sums
// of a segment stay in a core's cache, postings need 16 bits for a point. The search adds up
// products list by list, and leaves lists unread that cannot bring a point of the segment among the
// k nearest; what may be among them is computed anew from the points, in the order of the features.
// So a similarity is the same number on any shard, whatever other points lie beside it.
//
// Exact: the k points of the largest inner product <x, y>.
// By impact: the k points of the largest A, the sum of the products that are large alone,
// LeastProduct() or more. Points without a large product are not found. A is a function of x and y,
// so it does not depend on what lies on the shard either. Meant for points of length 1.
// Hashed: of the k largest min(<x, y>, A / kHashedPart), where A is the sum of the products of the
// features that x and y both elect (elected_features.h). Only these are in the index.
//
// Source of the order of the lists: Anh, de Kretser and Moffat 2001 (impacts); of the bounds:
// Turtle and Flood 1995 (MaxScore), Anastasiu and Karypis 2014 (the length of what is left).

#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/memory/elected_features.h"
#include "core/engine/memory/indexed_points.h"
#include "core/engine/memory/kth_floor.h"
#include "core/engine/memory/neighbour_candidates.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/memory/posting_lists.h"
#include "core/spec/record_spec.h"

namespace dslide {

// How sums over the postings that were read bound a similarity:
// sum * factor + above >= similarity >= sum - below.
struct SumBounds {
  float factor = 1;
  float above = 0;
  float below = 0;
};

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
  static constexpr uint32_t kNobody = 0xffffffff;
  static constexpr float kHashedPart = 0.5f;

  // The products that count in a search by impact, for a query of so many features. The more there
  // are, the smaller is each and the more of them make up a similarity. docs/understand/learning.md
  // has what other values cost and find.
  static float LeastProduct(double length, size_t features) {
    return static_cast<float>(0.07 * length / std::sqrt(static_cast<double>(features)));
  }

  // A thread's memory between searches.
  struct Scratch {
    struct Term {
      RowId feature;
      float weight;
      absl::Span<const Posting> postings;  // of the segment
    };
    std::vector<float> sums;       // [points of a segment]; all 0 between segments
    std::vector<uint16_t> places;  // of sums that are large enough
    std::vector<Term> terms;       // of the query, ascending
    std::vector<Term> by_weight;   // the same, the largest weight first, for an exact search
    SpreadQuery query;
    FeatureElection election;
    NeighbourCandidates candidates;
    KthFloor floor;  // of the similarities
    std::vector<Neighbour> found;
  };

  // search: how to look for neighbours; not kAuto.
  explicit NeighbourIndex(NeighbourSearch search = NeighbourSearch::kExact) : search_(search) {}

  // Ids are added once each, in any order. The record outlives the point's stay.
  void Add(uint32_t id, PointView point);
  // Whether the point was there.
  bool Remove(uint32_t id);
  void Clear();
  int64_t points() const { return points_.size(); }
  int64_t memory_bytes() const;

  // The best `k` >= 0 with a similarity above 0, nearest first; fewer where there are fewer.
  //   features, values : of the query; strictly ascending, equally many
  //   left_out : a point that is no neighbour of the query, itself perhaps; kNobody: none
  absl::Span<const Neighbour> Search(absl::Span<const RowId> features,
                                     absl::Span<const float> values, int64_t k, uint32_t left_out,
                                     Scratch& scratch) const;

 private:
  struct Segment {
    PostingLists lists;
    double longest = 0;     // of its points' lengths, removed ones included
    bool negative = false;  // a value of a point was
  };
  // What the search knows of the query.
  struct Query {
    double length;
    size_t features;
    float slack;    // a sum in any order is so near to that in ascending order, for length 1
    bool negative;  // a weight is
    bool prunable;  // bounds hold for it
    uint32_t left_out;
  };

  // Calls visit(feature, value) for what the index has of a point.
  template <typename Visit>
  void VisitIndexed(PointView point, const Visit& visit);
  // Sets the terms of the query.
  Query Prepare(absl::Span<const RowId> features, absl::Span<const float> values,
                Scratch& scratch) const;
  // Sets the postings of the terms.
  void FindLists(const Segment& segment, std::vector<Scratch::Term>& terms) const;
  // The terms to read of a segment, with their postings, and what their sums say.
  absl::Span<const Scratch::Term> Plan(const Query& query, const Segment& segment, Scratch& scratch,
                                       SumBounds& bounds) const;
  void SearchSegment(const Query& query, const Segment& segment, uint32_t first,
                     Scratch& scratch) const;
  void SearchSegmentByImpact(const Query& query, const Segment& segment, uint32_t first,
                             Scratch& scratch) const;
  void Rank(int64_t k, Scratch& scratch) const;

  const NeighbourSearch search_;
  FeatureElection election_;  // of the points
  IndexedPoints points_;
  std::vector<std::unique_ptr<Segment>> segments_;
};

}  // namespace dslide
