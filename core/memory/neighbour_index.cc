#include "core/memory/neighbour_index.h"

#include <algorithm>

namespace dslide {

void NeighbourIndex::Add(uint32_t id, PointView point) {
  const absl::Span<const RowId> features = point.features();
  if (!features.empty() && features.back().value() >= postings_.size()) {
    postings_.resize(features.back().value() + 1);
  }
  for (size_t i = 0; i < features.size(); ++i) {
    const float value = ToFloat(point.values()[i]);
    if (value != 0) postings_[features[i].value()].push_back({id, value});
  }
  num_postings_ += static_cast<int64_t>(features.size());
  end_ = std::max(end_, id + 1);
  ++points_;
}

void NeighbourIndex::Clear() { *this = NeighbourIndex(); }

int64_t NeighbourIndex::memory_bytes() const {
  // Lists that grow have room for half as much again, on average.
  return static_cast<int64_t>(postings_.size() * sizeof(std::vector<Posting>)) +
         num_postings_ * static_cast<int64_t>(sizeof(Posting)) * 3 / 2;
}

absl::Span<const Neighbour> NeighbourIndex::Search(absl::Span<const RowId> features,
                                                   absl::Span<const float> values, int64_t k,
                                                   uint32_t left_out, Scratch& scratch) const {
  scratch.sums.resize(end_, 0.0f);
  scratch.touched.clear();
  scratch.found.clear();
  float* const sums = scratch.sums.data();
  for (size_t i = 0; i < features.size(); ++i) {
    if (features[i].value() >= postings_.size()) continue;
    const float weight = values[i];
    if (weight == 0) continue;
    for (const Posting& posting : postings_[features[i].value()]) {
      // A sum that has come back to 0 is noted twice; the second time it is 0 below.
      if (sums[posting.point] == 0) scratch.touched.push_back(posting.point);
      sums[posting.point] += weight * posting.value;
    }
  }
  for (const uint32_t point : scratch.touched) {
    if (sums[point] > 0 && point != left_out) scratch.found.push_back({point, sums[point]});
    sums[point] = 0;
  }
  const auto wanted = std::min(static_cast<size_t>(k), scratch.found.size());
  const auto middle = scratch.found.begin() + static_cast<std::ptrdiff_t>(wanted);
  if (middle != scratch.found.end()) {
    std::nth_element(scratch.found.begin(), middle, scratch.found.end());
  }
  std::sort(scratch.found.begin(), middle);
  return absl::MakeConstSpan(scratch.found).subspan(0, wanted);
}

}  // namespace dslide
