#include "bench/neighbours/search_growth.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/neighbours/word_points.h"

namespace dslide::bench {
namespace {

TEST(MeasureSearches, CountsWhatTheyFind) {
  SparseBatch points;
  AppendWordPoints(0, 400, points);
  const auto result = MeasureSearches(points, 300, {.queries = 50, .k = 10, .rounds = 1});
  EXPECT_EQ(result["points"], 300);
  EXPECT_GT(result["features_per_point"], 15);
  EXPECT_LE(result["features_per_point"], 30);
  EXPECT_EQ(result["exact"]["differing"], 0);
  EXPECT_EQ(result["exact"]["recall"], 1.0);
  EXPECT_GT(result["impact"]["recall"], 0.5);
  EXPECT_LT(result["hashed"]["recall"], 1.0);
  EXPECT_LT(result["hashed"]["bytes"], result["exact"]["bytes"]);
}

TEST(WordPoints, ArePartsOfOneSequence) {
  SparseBatch all;
  AppendWordPoints(0, 20, all);
  SparseBatch parts;
  AppendWordPoints(0, 7, parts);
  AppendWordPoints(7, 13, parts);
  EXPECT_EQ(parts.features, all.features);
  EXPECT_EQ(parts.values, all.values);
  EXPECT_EQ(parts.feature_offsets, all.feature_offsets);
  EXPECT_EQ(parts.samples(), 20);
}

}  // namespace
}  // namespace dslide::bench
