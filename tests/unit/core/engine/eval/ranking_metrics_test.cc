#include "core/engine/eval/ranking_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/counter_rng.h"
#include "core/engine/eval/propensity.h"
#include "tests/reference/eval_reference.h"

namespace dslide {
namespace {

std::vector<RowId> RankedIds(std::initializer_list<uint32_t> ids) {
  std::vector<RowId> rows;
  for (const uint32_t id : ids) rows.emplace_back(id);
  return rows;
}

TEST(RankingMetricsTest, AgreesWithNumbersByHand) {
  const std::vector<float> weights = {1, 2, 4, 8};
  RankingMetrics metrics({1, 3}, weights);
  metrics.Add(RankedIds({0, 3, 1}), RankedIds({0, 1}));  // hits at ranks 1 and 3
  metrics.Add(RankedIds({1, 2}), RankedIds({0, 2, 3}));  // a hit at rank 2; a short ranking
  metrics.Add(RankedIds({1, 2, 3}), RankedIds({}));      // does not count
  EXPECT_EQ(metrics.points(), 2);
  EXPECT_EQ(metrics.depth(), 3);
  const std::vector<AccuracyAtK> accuracy = metrics.Accuracy();
  ASSERT_EQ(accuracy.size(), 2u);

  EXPECT_EQ(accuracy[0].k, 1);
  EXPECT_DOUBLE_EQ(accuracy[0].precision, 1.0 / 2);
  EXPECT_DOUBLE_EQ(accuracy[0].ndcg, 1.0 / 2);
  EXPECT_DOUBLE_EQ(accuracy[0].recall, (1.0 / 2 + 0) / 2);
  EXPECT_DOUBLE_EQ(*accuracy[0].psp, 1.0 / (2 + 8));
  EXPECT_DOUBLE_EQ(*accuracy[0].psndcg, 1.0 / (2 + 8));

  const double second = 1 / std::log2(3);  // the discount of rank 2; that of rank 3 is 1/2
  const double two = 1 + second;           // best possible sum for two labels, and for three
  const double three = 1 + second + 0.5;
  EXPECT_EQ(accuracy[1].k, 3);
  EXPECT_DOUBLE_EQ(accuracy[1].precision, (2.0 / 3 + 1.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(accuracy[1].ndcg, (1.5 / two + second / three) / 2);
  EXPECT_DOUBLE_EQ(accuracy[1].recall, (1.0 + 1.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(*accuracy[1].psp, (1.0 + 2 + 4) / ((2.0 + 1) + (8 + 4 + 1)));
  EXPECT_DOUBLE_EQ(*accuracy[1].psndcg,
                   ((1 + 2 * 0.5) / two + 4 * second / three) /
                       ((2 + 1 * second) / two + (8 + 4 * second + 1 * 0.5) / three));
}

TEST(RankingMetricsTest, WithoutPropensitiesThereAreNoScoredFigures) {
  RankingMetrics metrics({2});
  metrics.Add(RankedIds({5, 1}), RankedIds({1}));
  const AccuracyAtK at = metrics.Accuracy().front();
  EXPECT_DOUBLE_EQ(at.precision, 0.5);
  EXPECT_FALSE(at.psp.has_value());
  EXPECT_FALSE(at.psndcg.has_value());
}

TEST(RankingMetricsTest, WithoutPointsAllIsZero) {
  const std::vector<float> weights = {1};
  RankingMetrics metrics({1}, weights);
  metrics.Add(RankedIds({0}), RankedIds({}));
  const AccuracyAtK at = metrics.Accuracy().front();
  EXPECT_EQ(metrics.points(), 0);
  EXPECT_EQ(at.precision, 0);
  EXPECT_EQ(at.ndcg, 0);
  EXPECT_EQ(*at.psp, 0);
}

// Rankings of every quality: labels by their propensity, worst first, and at random.
TEST(RankingMetricsTest, AgreesWithTheReference) {
  CounterRng rng(11);
  constexpr uint64_t kLabels = 40;
  std::vector<int64_t> counts;
  for (uint64_t l = 0; l < kLabels; ++l) counts.push_back(static_cast<int64_t>(l * l % 23));
  const std::vector<float> weights = InversePropensities(counts, 900, PropensityModel());
  const std::vector<int64_t> cutoffs = {1, 2, 5, 9, 30};
  RankingMetrics metrics(cutoffs, weights);
  std::vector<reference::RankedPoint> points(500);
  for (reference::RankedPoint& point : points) {
    const uint64_t labels = rng.NextBelow(12);
    while (point.labels.size() < labels) {
      point.labels.insert(static_cast<uint32_t>(rng.NextBelow(kLabels)));
    }
    const uint64_t length = rng.NextBelow(kLabels + 1);
    while (point.ranked.size() < length) {
      const auto label = static_cast<uint32_t>(rng.NextBelow(kLabels));
      if (std::count(point.ranked.begin(), point.ranked.end(), label) == 0) {
        point.ranked.push_back(label);
      }
    }
    std::vector<RowId> ranked;
    for (const uint32_t label : point.ranked) ranked.emplace_back(label);
    std::vector<RowId> truth;
    for (const uint32_t label : point.labels) truth.emplace_back(label);
    metrics.Add(ranked, truth);
  }
  for (const AccuracyAtK& at : metrics.Accuracy()) {
    const reference::AccuracyFigures expected = reference::MeasureRankings(points, at.k, weights);
    // Sums of 500 terms of at most 10 in double precision.
    constexpr double kTolerance = 1e-12;
    EXPECT_NEAR(at.precision, expected.precision, kTolerance) << at.k;
    EXPECT_NEAR(at.ndcg, expected.ndcg, kTolerance) << at.k;
    EXPECT_NEAR(at.recall, expected.recall, kTolerance) << at.k;
    EXPECT_NEAR(*at.psp, expected.psp, kTolerance) << at.k;
    EXPECT_NEAR(*at.psndcg, expected.psndcg, kTolerance) << at.k;
  }
}

TEST(RankingMetricsTest, TheBestRankingScoresOne) {
  const std::vector<float> weights = {3, 1, 7, 2};
  RankingMetrics metrics({1, 3, 5}, weights);
  metrics.Add(RankedIds({2, 0, 1, 3}), RankedIds({0, 1, 2}));
  metrics.Add(RankedIds({3, 0, 1, 2}), RankedIds({3}));
  for (const AccuracyAtK& at : metrics.Accuracy()) {
    EXPECT_DOUBLE_EQ(at.ndcg, 1) << at.k;
    EXPECT_DOUBLE_EQ(*at.psp, 1) << at.k;
    EXPECT_DOUBLE_EQ(*at.psndcg, 1) << at.k;
    EXPECT_DOUBLE_EQ(at.recall, at.k == 1 ? (1.0 / 3 + 1) / 2 : 1) << at.k;
  }
}

}  // namespace
}  // namespace dslide
