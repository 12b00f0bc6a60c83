// The points that rows are solved from, side by side: those of one parent, which its children
// share. Their features are numbered from 0, so that what a solver reads again and again, points
// and weights, fits into the nearest caches.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/bfloat16.h"
#include "core/engine/math/kernels_dual.h"
#include "core/engine/memory/point_record.h"

namespace dslide {

// One thread's. Keeps its memory from parent to parent.
class GatheredPoints {
 public:
  // squared_lengths: [points] (SquaredLength); features: above every feature. Both outlive it.
  GatheredPoints(PointViews points, absl::Span<const float> squared_lengths, int64_t features);

  // ids: of points, each once. diagonal: what the curvature of each has beside its length.
  void Gather(absl::Span<const uint32_t> ids, float diagonal);

  // In the order of the ids.
  absl::Span<const DualSample> samples() const { return samples_; }
  // The features that the columns stand for, ascending.
  absl::Span<const uint32_t> features() const { return features_; }
  // Where a gathered point is among the samples.
  size_t PlaceOf(uint32_t id) const { return place_of_[id]; }

 private:
  void NumberFeatures(absl::Span<const uint32_t> ids);

  const PointViews points_;
  const absl::Span<const float> squared_lengths_;
  std::vector<uint32_t> place_of_;  // [all points]
  std::vector<DualSample> samples_;
  std::vector<uint32_t> features_;   // [columns]
  std::vector<uint32_t> column_of_;  // [all features]; kNoColumn between two gatherings
  std::vector<uint32_t> columns_;    // of the samples, one after the other, as the next
  std::vector<BFloat16> values_;
};

}  // namespace dslide
