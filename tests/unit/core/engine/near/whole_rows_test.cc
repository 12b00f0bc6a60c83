#include "core/engine/near/whole_rows.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/counter_rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int64_t kWholeSize = 30;

struct KnownRows {
  std::vector<std::vector<float>> weights;
  std::vector<float> biases;
  WholeRows rows;
};

KnownRows MakeRows(int64_t columns) {
  KnownRows made;
  made.rows = WholeRows(kWholeSize, columns);
  CounterRng rng(static_cast<uint64_t>(columns));
  for (int64_t i = 0; i < kWholeSize; ++i) {
    std::vector<float>& weights = made.weights.emplace_back(columns);
    for (float& weight : weights) weight = static_cast<float>(i) * rng.NextGaussian();
    made.biases.push_back(rng.NextGaussian());
    made.rows.Set(i, weights.data(), made.biases.back());
  }
  return made;
}

TEST(WholeRowsTest, EstimatesAreNearProducts) {
  for (const int64_t columns : {1, 64, 65, 300}) {
    const KnownRows made = MakeRows(columns);
    CounterRng rng(1);
    std::vector<float> query(static_cast<size_t>(columns));
    for (float& x : query) x = rng.NextGaussian();
    double sum = 0;
    for (const float x : query) sum += std::abs(x);
    WholeRowsScratch scratch;
    std::vector<float> estimates;
    made.rows.Estimate(query, scratch, estimates);
    ASSERT_EQ(estimates.size(), static_cast<size_t>(kWholeSize));
    for (int64_t i = 0; i < kWholeSize; ++i) {
      double product = made.biases[i];
      double square = 0;
      for (int64_t j = 0; j < columns; ++j) {
        product += double{made.weights[i][j]} * query[j];
        square += double{made.weights[i][j]} * made.weights[i][j];
      }
      // Half of what a row's number is worth (no half of a segment is longer than 124 of them) for
      // each of the query's; what rounding the query does is far less.
      EXPECT_NEAR(estimates[i], product, 0.51 * std::sqrt(square) / 124 * sum + 1e-4)
          << "row " << i << " of " << columns << " columns";
    }
    const std::vector<uint32_t> some = {29, 3, 3, 0};
    std::vector<float> of_some;
    made.rows.EstimateSome(query, some, scratch, of_some);
    EXPECT_THAT(of_some, ElementsAre(estimates[29], estimates[3], estimates[3], estimates[0]));
  }
}

TEST(WholeRowsTest, RowsThatCannotBeRoundedAreTheLargest) {
  constexpr float kMost = std::numeric_limits<float>::max();
  KnownRows made = MakeRows(8);
  std::vector<float> weights(8, 0.0f);
  for (const float odd :
       {1e30f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    weights[3] = odd;
    made.rows.Set(7, weights.data(), -5.0f);
    EXPECT_FALSE(made.rows.Known(7));
    EXPECT_TRUE(made.rows.Known(8));
    WholeRowsScratch scratch;
    std::vector<float> estimates;
    made.rows.Estimate(std::vector<float>(8, 1.0f), scratch, estimates);
    EXPECT_EQ(estimates[7], kMost);
    EXPECT_LT(estimates[8], kMost);
  }
  WholeRowsScratch scratch;
  std::vector<float> estimates;
  const WholeRows unset(3, 8);
  unset.Estimate(std::vector<float>(8, 1.0f), scratch, estimates);
  EXPECT_THAT(estimates, Each(kMost));
}

TEST(WholeRowsTest, AQueryThatCannotBeRoundedLeavesTheBiases) {
  const KnownRows made = MakeRows(8);
  for (const float odd : {0.0f, 1e30f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> query(8, 0.0f);
    query[2] = odd;
    EXPECT_FALSE(WholeVector::Rounds(query));
    WholeRowsScratch scratch;
    std::vector<float> estimates;
    made.rows.Estimate(query, scratch, estimates);
    EXPECT_EQ(estimates, made.biases) << odd;
  }
}

}  // namespace
}  // namespace dslide
