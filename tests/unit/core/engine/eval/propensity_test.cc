#include "core/engine/eval/propensity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(PropensityTest, FollowsTheFormula) {
  // By hand, with N = 1000, A = 0.55, B = 1.5: C = 5.907755 * 2.5^0.55 = 9.778889.
  const std::vector<int64_t> counts = {0, 1, 10, 1000};
  const std::vector<float> inverse = InversePropensities(counts, 1000, PropensityModel());
  ASSERT_EQ(inverse.size(), 4u);
  EXPECT_NEAR(inverse[0], 8.824189, 1e-4);
  EXPECT_NEAR(inverse[1], 6.907755, 1e-4);  // 1 + (ln N - 1)
  EXPECT_NEAR(inverse[2], 3.552147, 1e-4);
  EXPECT_NEAR(inverse[3], 1.218742, 1e-4);
  // The constants of the Amazon sets.
  EXPECT_NEAR(InversePropensities({10}, 1000, {.a = 0.6, .b = 2.6})[0], 3.786004, 1e-4);
}

TEST(PropensityTest, WeightsHaveAMeanOfOneOverTheLabelsOfAllPoints) {
  const std::vector<int64_t> counts = {0, 1, 10, 1000};
  const std::vector<float> inverse = InversePropensities(counts, 1000, PropensityModel());
  for (const double strength : {0.0, 0.5, 1.0}) {
    const std::vector<float> weights = PropensityWeights(counts, 1000, PropensityModel(), strength);
    double sum = 0.0;
    for (size_t l = 0; l < 4; ++l) {
      sum += static_cast<double>(counts[l]) * weights[l];
      EXPECT_NEAR(weights[l] / weights[3], std::pow(inverse[l] / inverse[3], strength), 1e-5);
    }
    EXPECT_NEAR(sum, 1011.0, 1e-2);
  }
  EXPECT_THAT(PropensityWeights({{0, 0}}, 5, PropensityModel(), 0.0), Each(1.0f)) << "no labels";
}

TEST(PropensityTest, IsNeverAboveOneInSetsOfAnySize) {
  for (const int64_t points : {1, 2, 3}) {
    const std::vector<int64_t> counts = {0, 1, points};
    EXPECT_THAT(InversePropensities(counts, points, PropensityModel()), Each(testing::Ge(1.0f)));
  }
}

TEST(PropensityTest, RefusesConstantsOutOfRange) {
  EXPECT_TRUE(PropensityModel().Validate().ok());
  const absl::Status zero = PropensityModel{.a = 0}.Validate();
  EXPECT_EQ(zero.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(zero.message()), HasSubstr("A = 0: must be above 0"));
  EXPECT_THAT(std::string(PropensityModel{.b = -1}.Validate().message()), HasSubstr("B = -1"));
  EXPECT_FALSE(PropensityModel{.a = std::numeric_limits<double>::infinity()}.Validate().ok());
  EXPECT_FALSE(PropensityModel{.b = std::nan("")}.Validate().ok());
}

}  // namespace
}  // namespace dslide
