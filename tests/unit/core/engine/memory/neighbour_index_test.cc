#include "core/engine/memory/neighbour_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

struct IndexedPoint {
  std::vector<RowId> features;
  std::vector<float> values;
  std::string record;
};

// Few features are common and light, many are rare and heavy, as words are. Length 1, but for
// rounding.
IndexedPoint DrawIndexedPoint(CounterRng& rng, float sign_part) {
  std::set<uint32_t> features;
  while (features.size() < 8) {
    features.insert(static_cast<uint32_t>(std::exp(rng.NextUniform() * 6.9f)) - 1);
  }
  IndexedPoint point;
  double squares = 0;
  for (const uint32_t feature : features) {
    const float value = (0.5f + rng.NextUniform()) * std::log(2.0f + static_cast<float>(feature));
    point.features.push_back(RowId(feature));
    point.values.push_back(rng.NextUniform() < sign_part ? -value : value);
    squares += static_cast<double>(value) * value;
  }
  for (float& value : point.values) value /= static_cast<float>(std::sqrt(squares));
  point.record = EncodePoint(point.features, point.values, {});
  return point;
}

std::vector<IndexedPoint> DrawIndexedPoints(size_t count, float sign_part = 0) {
  CounterRng rng(count);
  std::vector<IndexedPoint> points(count);
  for (IndexedPoint& point : points) point = DrawIndexedPoint(rng, sign_part);
  return points;
}

// Whether a product counts for a sum, given the places of its factors.
using Counts = std::function<bool(size_t of_query, size_t of_point, float product)>;

// The f32 sum of the products that count, in the order of the features.
float SumOfProducts(const IndexedPoint& query, PointView point, const Counts& counts) {
  float sum = 0;
  for (size_t i = 0, j = 0; i < query.features.size(); ++i) {
    while (j < point.features().size() && point.features()[j] < query.features[i]) ++j;
    if (j == point.features().size()) break;
    if (point.features()[j] != query.features[i]) continue;
    const float product = query.values[i] * ToFloat(point.values()[j]);
    if (counts(i, j, product)) sum += product;
  }
  return sum;
}

float SlowImpact(const IndexedPoint& query, PointView point) {
  double squares = 0;
  for (const float value : query.values) squares += static_cast<double>(value) * value;
  const float least = NeighbourIndex::LeastProduct(std::sqrt(squares), query.features.size());
  return SumOfProducts(query, point, [&](size_t i, size_t j, float) {
    return query.values[i] > 0 && ToFloat(point.values()[j]) >= least / query.values[i];
  });
}

float SlowElected(const IndexedPoint& query, PointView point) {
  FeatureElection of_query;
  FeatureElection of_point;
  std::vector<float> values;
  for (const BFloat16 value : point.values()) values.push_back(ToFloat(value));
  const auto left = of_query.Elect(query.features, query.values);
  const auto right = of_point.Elect(point.features(), values);
  return SumOfProducts(query, point,
                       [&](size_t i, size_t j, float) { return left[i] != 0 && right[j] != 0; });
}

// What neighbour_index.h defines, computed for each pair.
float SlowSimilarity(NeighbourSearch search, const IndexedPoint& query, PointView point) {
  const float product = SumOfProducts(query, point, [](size_t, size_t, float) { return true; });
  if (search == NeighbourSearch::kImpact) return SlowImpact(query, point);
  if (search == NeighbourSearch::kHashed) {
    return std::min(product, (1 / NeighbourIndex::kHashedPart) * SlowElected(query, point));
  }
  return product;
}

// The slow way: the similarities of all, sorted.
std::vector<Neighbour> SlowSearch(NeighbourSearch search, const std::vector<IndexedPoint>& points,
                                  const IndexedPoint& query, size_t k, uint32_t left_out) {
  std::vector<Neighbour> all;
  for (uint32_t id = 0; id < points.size(); ++id) {
    const float similarity = SlowSimilarity(search, query, PointView(points[id].record.data()));
    if (id != left_out && similarity > 0) all.push_back({id, similarity});
  }
  std::sort(all.begin(), all.end());
  all.resize(std::min(k, all.size()));
  return all;
}

constexpr NeighbourSearch kSearches[] = {NeighbourSearch::kExact, NeighbourSearch::kImpact,
                                         NeighbourSearch::kHashed};

std::vector<Neighbour> FindIn(const NeighbourIndex& index, const IndexedPoint& query, size_t k,
                              uint32_t left_out, NeighbourIndex::Scratch& scratch) {
  const auto found =
      index.Search(query.features, query.values, static_cast<int64_t>(k), left_out, scratch);
  return {found.begin(), found.end()};
}

TEST(NeighbourIndex, FindsWhatAScanFindsToTheBit) {
  for (const float sign_part : {0.0f, 0.2f}) {
    const std::vector<IndexedPoint> points = DrawIndexedPoints(600, sign_part);
    for (const NeighbourSearch search : kSearches) {
      NeighbourIndex index(search);
      for (uint32_t id = 0; id < points.size(); ++id) {
        index.Add(id, PointView(points[id].record.data()));
      }
      NeighbourIndex::Scratch scratch;
      for (uint32_t id = 0; id < points.size(); id += 7) {
        const size_t k = 1 + id % 90;
        EXPECT_THAT(FindIn(index, points[id], k, id, scratch),
                    ElementsAreArray(SlowSearch(search, points, points[id], k, id)));
      }
    }
  }
}

// From the second segment on lists may be left unread, and sums be too small to matter.
TEST(NeighbourIndex, SegmentsAndBoundsChangeNoBit) {
  const std::vector<IndexedPoint> points = DrawIndexedPoints(80000);
  for (const NeighbourSearch search : {NeighbourSearch::kExact, NeighbourSearch::kImpact}) {
    NeighbourIndex index(search);
    for (uint32_t id = 0; id < points.size(); ++id) {
      index.Add(id, PointView(points[id].record.data()));
    }
    NeighbourIndex::Scratch scratch;
    for (uint32_t id = 0; id < points.size(); id += 16001) {
      for (const size_t k : {1, 200}) {
        EXPECT_THAT(FindIn(index, points[id], k, id, scratch),
                    ElementsAreArray(SlowSearch(search, points, points[id], k, id)));
      }
    }
  }
}

TEST(NeighbourIndex, ShardsFindTheSameTogether) {
  const std::vector<IndexedPoint> points = DrawIndexedPoints(3000);
  for (const NeighbourSearch search : kSearches) {
    NeighbourIndex all(search);
    std::vector<std::unique_ptr<NeighbourIndex>> shards;
    for (int i = 0; i < 3; ++i) shards.push_back(std::make_unique<NeighbourIndex>(search));
    // In another order, too: it does not matter.
    for (uint32_t id = 0; id < points.size(); ++id) {
      all.Add(id, PointView(points[id].record.data()));
      const auto other = static_cast<uint32_t>(points.size() - 1 - id);
      shards[other % 3]->Add(other, PointView(points[other].record.data()));
    }
    NeighbourIndex::Scratch scratch;
    for (uint32_t id = 0; id < points.size(); id += 101) {
      std::vector<Neighbour> merged;
      for (const auto& shard : shards) {
        const auto found = FindIn(*shard, points[id], 40, id, scratch);
        merged.insert(merged.end(), found.begin(), found.end());
      }
      std::sort(merged.begin(), merged.end());
      merged.resize(std::min<size_t>(40, merged.size()));
      EXPECT_THAT(merged, ElementsAreArray(FindIn(all, points[id], 40, id, scratch)));
    }
  }
}

TEST(NeighbourIndex, RemovedPointsAreAsIfTheyHadNeverBeen) {
  const std::vector<IndexedPoint> points = DrawIndexedPoints(900);
  for (const NeighbourSearch search : kSearches) {
    NeighbourIndex index(search);
    for (uint32_t id = 0; id < 600; ++id) index.Add(id, PointView(points[id].record.data()));
    for (uint32_t id = 0; id < 600; id += 2) EXPECT_TRUE(index.Remove(id));
    EXPECT_FALSE(index.Remove(0));
    for (uint32_t id = 600; id < 900; ++id) index.Add(id, PointView(points[id].record.data()));
    NeighbourIndex fresh(search);
    for (uint32_t id = 0; id < 900; ++id) {
      if (id >= 600 || id % 2 == 1) fresh.Add(id, PointView(points[id].record.data()));
    }
    EXPECT_EQ(index.points(), 600);
    NeighbourIndex::Scratch scratch;
    for (uint32_t id = 0; id < 900; id += 31) {
      EXPECT_THAT(FindIn(index, points[id], 50, id, scratch),
                  ElementsAreArray(FindIn(fresh, points[id], 50, id, scratch)));
    }
  }
}

TEST(NeighbourIndex, GivesMemoryBackWhenPointsAreRemoved) {
  const std::vector<IndexedPoint> points = DrawIndexedPoints(3000);
  NeighbourIndex index;
  for (uint32_t id = 0; id < points.size(); ++id) {
    index.Add(id, PointView(points[id].record.data()));
  }
  const int64_t full = index.memory_bytes();
  for (uint32_t id = 0; id < points.size(); ++id) {
    if (id % 30 != 0) index.Remove(id);
  }
  // Ids and places stay, for the points that come next.
  EXPECT_LT(index.memory_bytes(), full * 2 / 3);
  NeighbourIndex::Scratch scratch;
  NeighbourIndex fresh;
  for (uint32_t id = 0; id < points.size(); id += 30) {
    fresh.Add(id, PointView(points[id].record.data()));
  }
  for (uint32_t id = 0; id < points.size(); id += 310) {
    EXPECT_THAT(FindIn(index, points[id], 20, id, scratch),
                ElementsAreArray(FindIn(fresh, points[id], 20, id, scratch)));
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
  EXPECT_THAT(index.Search({}, {}, 5, 3, scratch), ElementsAre());
  index.Clear();
  EXPECT_EQ(index.points(), 0);
  EXPECT_THAT(index.Search({RowId(2)}, {1.0f}, 2, 3, scratch), ElementsAre());
}

TEST(NeighbourSearch, ManyPointsOfUnitLengthAreSearchedByImpact) {
  constexpr auto kAuto = NeighbourSearch::kAuto;
  EXPECT_EQ(ResolveSearch(kAuto, 16383, true), NeighbourSearch::kExact);
  EXPECT_EQ(ResolveSearch(kAuto, 16384, true), NeighbourSearch::kImpact);
  EXPECT_EQ(ResolveSearch(kAuto, 16384, false), NeighbourSearch::kExact);
  EXPECT_EQ(ResolveSearch(NeighbourSearch::kHashed, 1, false), NeighbourSearch::kHashed);
}

}  // namespace
}  // namespace dslide
