// The points of an index: each has a number of its own there, the lowest that is free, whatever its
// id. Similarities are computed from their records.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/prefetch.h"
#include "core/engine/memory/point_record.h"

namespace dslide {

// A query spread over the features, for inner products with sparse points. Not thread-safe.
class SpreadQuery {
 public:
  // features: strictly ascending. Called before the first Product() and after the last one.
  void Set(absl::Span<const RowId> features, absl::Span<const float> values);
  void Clear(absl::Span<const RowId> features);

  // The f32 sum of the products over the common features, in ascending order: the same bits as any
  // other way of adding them in this order, as adding 0 changes nothing.
  float Product(PointView point) const;

 private:
  std::vector<float> values_;  // by feature; all 0 between queries
};

// Thread safety: const functions are concurrent with each other; the caller excludes the rest.
class IndexedPoints {
 public:
  static constexpr uint32_t kNowhere = 0xffffffff;

  // Returns the point's number. The id is not there yet. The record outlives the point's stay.
  uint32_t Add(uint32_t id, PointView point);
  // Returns the number that it had.
  uint32_t Remove(uint32_t id);

  int64_t size() const { return static_cast<int64_t>(ids_.size() - free_.size()); }
  // Above every number.
  uint32_t numbers() const { return static_cast<uint32_t>(ids_.size()); }
  // kNowhere: not there.
  uint32_t NumberOf(uint32_t id) const { return id < numbers_.size() ? numbers_[id] : kNowhere; }
  uint32_t IdOf(uint32_t number) const { return ids_[number]; }
  PointView At(uint32_t number) const { return points_[number]; }
  // What At() and IdOf() read.
  void Prefetch(uint32_t number) const {
    PrefetchLine(&points_[number]);
    PrefetchLine(&ids_[number]);
  }
  int64_t memory_bytes() const;

 private:
  std::vector<uint32_t> ids_;      // by number
  std::vector<PointView> points_;  // by number
  std::vector<uint32_t> numbers_;  // by id
  std::vector<uint32_t> free_;     // numbers of points that were removed
};

}  // namespace dslide
