#include "bench/common/statistics.h"

#include <cmath>

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
