#include "bench/common/statistics.h"

#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace dslide::bench {
namespace {

TEST(MedianTest, IsTheMiddleOfUnsortedValues) {
  EXPECT_EQ(Median({}), 0.0);
  EXPECT_EQ(Median({7}), 7.0);
  EXPECT_EQ(Median({9, 1, 5}), 5.0);
  EXPECT_EQ(Median({9, 1, 5, 6}), 5.5);
}

TEST(QuantileTest, IsOneOfTheValues) {
  EXPECT_EQ(Quantile({}, 0.5), 0.0);
  EXPECT_EQ(Quantile({7}, 0.99), 7.0);
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 0.5), 2.0);
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 0.51), 3.0);
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 0.0), 1.0);
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 1.0), 4.0);
}

TEST(SpreadTest, IsTheRangeRelativeToTheMedian) {
  EXPECT_EQ(Spread({}), 0.0);
  EXPECT_EQ(Spread({4}), 0.0);
  EXPECT_EQ(Spread({4, 4}), 0.0);
  EXPECT_DOUBLE_EQ(Spread({11, 9, 10}), 0.2);
  EXPECT_TRUE(std::isinf(Spread({-1, 0, 1})));
  EXPECT_EQ(Spread({0, 0}), 0.0);
}

std::vector<double> From1To(int count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(MedianEstimateTest, LeavesOutAsManyValuesAsTheTablesOfTheSignTest) {
  // The usual tables, two-sided 5 %: 0 of 6, 1 of 9, 3 of 15, 5 of 20, 9 of 30.
  for (const auto& [count, out] :
       std::map<int, int>{{6, 0}, {8, 0}, {9, 1}, {15, 3}, {20, 5}, {30, 9}}) {
    const MedianEstimate estimate = EstimateMedian(From1To(count));
    EXPECT_DOUBLE_EQ(estimate.median, (count + 1) / 2.0) << count;
    EXPECT_DOUBLE_EQ(estimate.low, 1 + out) << count;
    EXPECT_DOUBLE_EQ(estimate.high, count - out) << count;
  }
}

TEST(MedianEstimateTest, OfFewValuesIsTheirRange) {
  EXPECT_EQ(EstimateMedian({}).high, 0.0);
  EXPECT_EQ(EstimateMedian({7}).low, 7.0);
  const MedianEstimate of_three = EstimateMedian({5, 9, 4});
  EXPECT_EQ(of_three.low, 4.0);
  EXPECT_EQ(of_three.high, 9.0);
}

TEST(MedianEstimateTest, OfManyValuesIsThatOfTheNormalDistribution) {
  // The k-th of n values on either side, k about (n - 1.96 sqrt n) / 2.
  const MedianEstimate estimate = EstimateMedian(From1To(10'000));
  EXPECT_NEAR(estimate.low, 4902, 1);
  EXPECT_NEAR(estimate.high, 5099, 1);
}

TEST(MedianEstimateTest, UncertaintyIsTheFartherEnd) {
  EXPECT_DOUBLE_EQ((MedianEstimate{.median = 10, .low = 9, .high = 12}).Uncertainty(), 0.2);
  EXPECT_DOUBLE_EQ((MedianEstimate{.median = 10, .low = 7, .high = 11}).Uncertainty(), 0.3);
  EXPECT_EQ(MedianEstimate().Uncertainty(), 0.0);
}

TEST(RepeatRuleTest, StopsWhenTheSpreadIsSmallOrPatienceEnds) {
  const RepeatRule rule{.min_repeats = 2, .max_repeats = 4, .spread = 0.1};
  EXPECT_FALSE(rule.Enough({}));
  EXPECT_FALSE(rule.Enough({10}));
  EXPECT_TRUE(rule.Enough({10, 10.5}));
  EXPECT_FALSE(rule.Enough({10, 12}));
  EXPECT_FALSE(rule.Enough({10, 12, 14}));
  EXPECT_TRUE(rule.Enough({10, 12, 14, 16}));
}

}  // namespace
}  // namespace dslide::bench
