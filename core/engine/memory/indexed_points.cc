#include "core/engine/memory/indexed_points.h"

#include <algorithm>

namespace dslide {

void SpreadQuery::Set(absl::Span<const RowId> features, absl::Span<const float> values) {
  if (!features.empty() && features.back().value() >= values_.size()) {
    values_.resize(size_t{features.back().value()} + 1);
  }
  for (size_t i = 0; i < features.size(); ++i) values_[features[i].value()] = values[i];
}

void SpreadQuery::Clear(absl::Span<const RowId> features) {
  for (const RowId feature : features) values_[feature.value()] = 0;
}

float SpreadQuery::Product(PointView point) const {
  const absl::Span<const RowId> features = point.features();
  const absl::Span<const BFloat16> values = point.values();
  // A point may have features above all of the queries'.
  size_t end = features.size();
  while (end > 0 && features[end - 1].value() >= values_.size()) --end;
  float sum = 0;
  for (size_t i = 0; i < end; ++i) sum += values_[features[i].value()] * ToFloat(values[i]);
  return sum;
}

uint32_t IndexedPoints::Add(uint32_t id, PointView point) {
  uint32_t number = static_cast<uint32_t>(ids_.size());
  if (free_.empty()) {
    ids_.push_back(id);
    points_.push_back(point);
  } else {
    number = free_.back();
    free_.pop_back();
    ids_[number] = id;
    points_[number] = point;
  }
  if (id >= numbers_.size()) numbers_.resize(size_t{id} + 1, kNowhere);
  numbers_[id] = number;
  return number;
}

uint32_t IndexedPoints::Remove(uint32_t id) {
  const uint32_t number = numbers_[id];
  numbers_[id] = kNowhere;
  points_[number] = PointView();
  free_.push_back(number);
  return number;
}

int64_t IndexedPoints::memory_bytes() const {
  return static_cast<int64_t>((ids_.capacity() + numbers_.capacity() + free_.capacity()) *
                                  sizeof(uint32_t) +
                              points_.capacity() * sizeof(PointView));
}

}  // namespace dslide
