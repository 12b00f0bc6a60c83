#include "bench/neighbours/point_scan.h"

#include <algorithm>

namespace dslide::bench {

void PointScan::Add(PointView point) {
  const auto id = static_cast<uint32_t>(sums_.size());
  sums_.push_back(0);
  for (size_t i = 0; i < point.features().size(); ++i) {
    const RowId feature = point.features()[i];
    if (feature.value() >= lists_.size()) lists_.resize(size_t{feature.value()} + 1);
    lists_[feature.value()].push_back({id, ToFloat(point.values()[i])});
  }
}

std::vector<Neighbour> PointScan::Search(absl::Span<const RowId> features,
                                         absl::Span<const float> values, int64_t k,
                                         uint32_t left_out) {
  touched_.clear();
  for (size_t i = 0; i < features.size(); ++i) {
    if (features[i].value() >= lists_.size()) continue;
    for (const Posting& posting : lists_[features[i].value()]) {
      if (sums_[posting.point] == 0) touched_.push_back(posting.point);
      sums_[posting.point] += values[i] * posting.value;
    }
  }
  std::vector<Neighbour> found;
  for (const uint32_t point : touched_) {
    if (sums_[point] > 0 && point != left_out) found.push_back({point, sums_[point]});
    sums_[point] = 0;
  }
  const auto wanted = std::min(static_cast<size_t>(k), found.size());
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(wanted);
  if (end != found.end()) std::nth_element(found.begin(), end, found.end());
  std::sort(found.begin(), end);
  found.resize(wanted);
  return found;
}

int64_t PointScan::memory_bytes() const {
  auto bytes = static_cast<int64_t>(lists_.capacity() * sizeof(decltype(lists_)::value_type) +
                                    sums_.capacity() * sizeof(float));
  for (const auto& list : lists_) bytes += static_cast<int64_t>(list.capacity() * sizeof(Posting));
  return bytes;
}

}  // namespace dslide::bench
