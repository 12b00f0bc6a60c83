#include "core/engine/memory/point_ages.h"

#include <algorithm>

namespace dslide {

void PointAges::Add(uint32_t row, uint32_t time) {
  entries_.push_back({time, row});
  std::push_heap(entries_.begin(), entries_.end(), Younger);
}

std::optional<uint32_t> PointAges::PopOlderThan(uint32_t time) {
  if (entries_.empty() || entries_.front().time >= time) return std::nullopt;
  std::pop_heap(entries_.begin(), entries_.end(), Younger);
  const uint32_t row = entries_.back().row;
  entries_.pop_back();
  return row;
}

}  // namespace dslide
