// Which points belong to which group (a label, a leaf): compressed lists, ascending.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/engine/memory/point_record.h"

namespace dslide {

struct PointLists {
  std::vector<uint64_t> offsets;  // [groups + 1]
  std::vector<uint32_t> points;   // ascending in a group, each once

  absl::Span<const uint32_t> Of(int64_t group) const { return Of(group, group + 1); }
  // Of neighbouring groups, one after the other.
  absl::Span<const uint32_t> Of(int64_t first, int64_t last) const {
    const uint64_t begin = offsets[static_cast<size_t>(first)];
    return absl::MakeConstSpan(points).subspan(begin, offsets[static_cast<size_t>(last)] - begin);
  }
  int64_t memory_bytes() const {
    return static_cast<int64_t>(offsets.size() * sizeof(offsets[0]) +
                                points.size() * sizeof(points[0]));
  }
};

// Points by group; group_of: [labels], a label's group, or kNoLeaf. A point is in the groups of all
// its labels; labels beyond group_of count for nothing.
PointLists ListPoints(PointViews points, absl::Span<const uint32_t> group_of, int64_t groups);
// Points by label.
PointLists ListByLabel(PointViews points, int64_t labels);

}  // namespace dslide
