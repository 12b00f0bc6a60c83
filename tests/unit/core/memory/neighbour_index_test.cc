#include "core/memory/neighbour_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;

struct Point {
  std::vector<RowId> features;
  std::vector<float> values;
};

// Values are multiples of 1/8, exact in bf16; their sums are exact in any order.
Point Draw(CounterRng& rng) {
  Point point;
  for (uint32_t feature = 0; feature < 40; ++feature) {
    if (rng.NextBelow(6) != 0) continue;
    point.features.push_back(RowId(feature));
    point.values.push_back((static_cast<float>(rng.NextBelow(17)) - 6) / 8);
  }
  return point;
}

// The slow way: all inner products, sorted.
std::vector<Neighbour> SlowSearch(const std::vector<Point>& points, const Point& query, size_t k,
                                  uint32_t left_out, uint32_t step, uint32_t offset) {
  std::vector<Neighbour> all;
  for (uint32_t id = 0; id < points.size(); ++id) {
    if (id % step != offset || id == left_out) continue;
    float sum = 0;
    for (size_t i = 0; i < query.features.size(); ++i) {
      for (size_t j = 0; j < points[id].features.size(); ++j) {
        if (points[id].features[j] == query.features[i]) {
          sum += query.values[i] * points[id].values[j];
        }
      }
    }
    if (sum > 0) all.push_back({id, sum});
  }
  std::sort(all.begin(), all.end());
  all.resize(std::min(k, all.size()));
  return all;
}

TEST(NeighbourIndex, FindsWhatAScanFinds) {
  CounterRng rng(1);
  std::vector<Point> points(300);
  std::vector<std::string> records;
  for (Point& point : points) {
    point = Draw(rng);
    records.push_back(EncodePoint(point.features, point.values, {}));
  }
  NeighbourIndex all;
  NeighbourIndex odd;
  for (uint32_t id = 0; id < points.size(); ++id) {
    all.Add(id, PointView(records[id].data()));
    if (id % 2 == 1) odd.Add(id, PointView(records[id].data()));
  }
  NeighbourIndex::Scratch scratch;
  for (uint32_t id = 0; id < points.size(); ++id) {
    const Point& query = points[id];
    const size_t k = 1 + id % 30;
    const auto found =
        all.Search(query.features, query.values, static_cast<int64_t>(k), id, scratch);
    EXPECT_THAT(found, ::testing::ElementsAreArray(SlowSearch(points, query, k, id, 1, 0)));
    const auto of_odd = odd.Search(query.features, query.values, static_cast<int64_t>(k),
                                   NeighbourIndex::kNobody, scratch);
    EXPECT_THAT(of_odd, ::testing::ElementsAreArray(
                            SlowSearch(points, query, k, NeighbourIndex::kNobody, 2, 1)));
  }
}

TEST(NeighbourIndex, OfEquallyNearOnesTheSmallerIdIsFirst) {
  const std::string record = EncodePoint({RowId(2)}, {0.5f}, {});
  NeighbourIndex index;
  for (const uint32_t id : {7u, 3u, 5u}) index.Add(id, PointView(record.data()));
  NeighbourIndex::Scratch scratch;
  EXPECT_THAT(index.Search({RowId(2)}, {1.0f}, 2, 3, scratch),
              ElementsAre(Neighbour{5, 0.5f}, Neighbour{7, 0.5f}));
  EXPECT_THAT(index.Search({RowId(2), RowId(99)}, {1.0f, 1.0f}, 0, 3, scratch), ElementsAre());
  EXPECT_THAT(index.Search({RowId(1000)}, {1.0f}, 5, 3, scratch), ElementsAre());
  index.Clear();
  EXPECT_EQ(index.points(), 0);
  EXPECT_THAT(index.Search({RowId(2)}, {1.0f}, 2, 3, scratch), ElementsAre());
}

}  // namespace
}  // namespace dslide
