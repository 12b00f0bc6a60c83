#include "core/engine/trees/point_lists.h"

#include <algorithm>
#include <numeric>

#include "core/spec/tree_shape.h"

namespace dslide {
namespace {

// Calls note(point, group) for each pair once, in the order of the points.
template <typename GroupOf, typename Note>
void ForEachPair(PointViews points, const GroupOf& group_of, const Note& note) {
  std::vector<uint32_t> mine;
  for (size_t id = 0; id < points.size(); ++id) {
    if (!points[id].present()) continue;
    mine.clear();
    for (const RowId label : points[id].labels()) {
      if (const uint32_t group = group_of(label); group != kNoLeaf) mine.push_back(group);
    }
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    for (const uint32_t group : mine) note(static_cast<uint32_t>(id), group);
  }
}

template <typename GroupOf>
PointLists List(PointViews points, const GroupOf& group_of, int64_t groups) {
  PointLists lists;
  lists.offsets.assign(static_cast<size_t>(groups) + 1, 0);
  ForEachPair(points, group_of, [&](uint32_t, uint32_t group) { ++lists.offsets[group + 1]; });
  std::partial_sum(lists.offsets.begin(), lists.offsets.end(), lists.offsets.begin());
  lists.points.resize(lists.offsets.back());
  std::vector<uint64_t> next(lists.offsets.begin(), lists.offsets.end() - 1);
  ForEachPair(points, group_of,
              [&](uint32_t point, uint32_t group) { lists.points[next[group]++] = point; });
  return lists;
}

}  // namespace

PointLists ListPoints(PointViews points, absl::Span<const uint32_t> group_of, int64_t groups) {
  return List(
      points,
      [&](RowId label) {
        return label.value() < group_of.size() ? group_of[label.value()] : kNoLeaf;
      },
      groups);
}

PointLists ListByLabel(PointViews points, int64_t labels) {
  return List(
      points, [&](RowId label) { return label.value() < labels ? label.value() : kNoLeaf; },
      labels);
}

}  // namespace dslide
