#include "core/engine/trees/gathered_points.h"

#include <algorithm>
#include <numeric>

namespace dslide {
namespace {

constexpr uint32_t kNoColumn = 0xffffffffu;
// More features of points than this fit into no cache, and their copies would be large: 24 MB.
constexpr uint64_t kMostGathered = uint64_t{1} << 22;

static_assert(sizeof(RowId) == sizeof(uint32_t), "a point's features are read as columns");

}  // namespace

GatheredPoints::GatheredPoints(PointViews points, absl::Span<const float> squared_lengths,
                               int64_t features)
    : points_(points),
      squared_lengths_(squared_lengths),
      place_of_(points.size()),
      column_of_(static_cast<size_t>(features), kNoColumn) {}

void GatheredPoints::NumberFeatures(absl::Span<const uint32_t> ids) {
  features_.clear();
  for (const uint32_t id : ids) {
    for (const RowId feature : points_[id].features()) {
      uint32_t& column = column_of_[feature.value()];
      if (column != kNoColumn) continue;
      column = 0;
      features_.push_back(feature.value());
    }
  }
  std::sort(features_.begin(), features_.end());
  for (size_t i = 0; i < features_.size(); ++i) column_of_[features_[i]] = static_cast<uint32_t>(i);
}

void GatheredPoints::Gather(absl::Span<const uint32_t> ids, float diagonal) {
  samples_.clear();
  uint64_t entries = 0;
  for (const uint32_t id : ids) {
    const PointView point = points_[id];
    place_of_[id] = static_cast<uint32_t>(samples_.size());
    samples_.push_back({.columns = reinterpret_cast<const uint32_t*>(point.features().data()),
                        .values = point.values().data(),
                        .size = point.num_features(),
                        .curvature = squared_lengths_[id] + 1 + diagonal});
    entries += point.num_features();
  }
  if (entries > kMostGathered) {
    // They are read where they lie.
    features_.resize(column_of_.size());
    std::iota(features_.begin(), features_.end(), 0u);
    return;
  }
  NumberFeatures(ids);
  columns_.resize(entries);
  values_.resize(entries);
  size_t next = 0;
  for (DualSample& sample : samples_) {
    for (uint32_t i = 0; i < sample.size; ++i) {
      columns_[next + i] = column_of_[sample.columns[i]];
      values_[next + i] = sample.values[i];
    }
    sample.columns = columns_.data() + next;
    sample.values = values_.data() + next;
    next += sample.size;
  }
  for (const uint32_t feature : features_) column_of_[feature] = kNoColumn;
}

}  // namespace dslide
