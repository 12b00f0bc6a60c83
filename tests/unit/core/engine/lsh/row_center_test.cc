#include "core/engine/lsh/row_center.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

struct Setting {
  bool center, norm_coordinate;
  double quantile;
  int64_t rows, dim;
};

class RowCenterTest : public ::testing::TestWithParam<Setting> {
 protected:
  RowCenterTest() {
    spec_.center = GetParam().center;
    spec_.norm_coordinate = GetParam().norm_coordinate;
    spec_.norm_quantile = GetParam().quantile;
  }
  HashSpec spec_;
};

// Means are sums in double, rounded once (error u = 2^-24 of them); the squared norm has dim + 2
// rounding steps in float; the coordinate is a root of a difference, so its error is bounded on the
// square: (dim + 4) u M^2.
TEST_P(RowCenterTest, AgreesWithTheFormulas) {
  const TestRows rows = TestRows::Random(GetParam().rows, GetParam().dim, 5);
  const RowCenter center = RowCenter::Measure(rows, spec_, Parallelism{});
  const auto expected = reference::CenteredRows(spec_, rows.weights, rows.biases);
  for (int64_t r = 0; r < rows.num_rows(); ++r) {
    std::vector<float> centered(rows.dim());
    float extras[2];
    center.Center(rows.weights[r].data(), rows.biases[r], centered.data(), extras);
    double square = 0.0;
    for (int64_t i = 0; i < rows.dim(); ++i) {
      EXPECT_NEAR(centered[i], expected[r].values[i], 1e-6);
      square += static_cast<double>(centered[i]) * static_cast<double>(centered[i]);
    }
    EXPECT_NEAR(extras[0], expected[r].extra1, 1e-6);
    const double wanted = static_cast<double>(expected[r].extra2);
    const double got = static_cast<double>(extras[1]);
    const double tolerance =
        static_cast<double>(rows.dim() + 4) * 0x1p-24 * 4 * (wanted * wanted + square + 1.0);
    EXPECT_NEAR(got * got, wanted * wanted, tolerance) << "row " << r;
  }
}

TEST_P(RowCenterTest, ThreadsChangeNoBit) {
  const TestRows rows = TestRows::Random(GetParam().rows, GetParam().dim, 6);
  const auto bits = [&](int threads) {
    const RowCenter center = RowCenter::Measure(rows, spec_, Parallelism{threads});
    std::vector<float> all;
    for (int64_t r = 0; r < rows.num_rows(); ++r) {
      std::vector<float> centered(rows.dim() + 2);
      center.Center(rows.weights[r].data(), rows.biases[r], centered.data(),
                    centered.data() + rows.dim());
      all.insert(all.end(), centered.begin(), centered.end());
    }
    return all;
  };
  const std::vector<float> one = bits(1);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(bits(threads), one);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, RowCenterTest,
    ::testing::Values(Setting{true, true, 0.95, 700, 37}, Setting{true, true, 1.0, 100, 128},
                      Setting{false, true, 0.5, 100, 8}, Setting{true, false, 0.95, 100, 16},
                      Setting{false, false, 0.95, 20, 3}, Setting{true, true, 0.95, 1, 5},
                      Setting{true, true, 0.001, 40, 1}));

TEST(RowCenterTest, RowsLongerThanTheBoundGetZero) {
  HashSpec spec;
  spec.center = false;
  spec.norm_quantile = 0.5;  // the second of 4
  TestRows rows(1);
  for (const float weight : {3.0f, 1.0f, 4.0f, 2.0f}) {
    rows.weights.push_back({weight});
    rows.biases.push_back(0.0f);
  }
  const RowCenter center = RowCenter::Measure(rows, spec, Parallelism{});
  const float expected[] = {0.0f, std::sqrt(3.0f), 0.0f, 0.0f};
  for (int64_t r = 0; r < 4; ++r) {
    float centered = 0.0f;
    float extras[2];
    center.Center(rows.weights[r].data(), 0.0f, &centered, extras);
    EXPECT_EQ(extras[1], expected[r]) << "row " << r;
  }
}

TEST(RowCenterTest, NoRowsAreNoTrouble) {
  const TestRows rows(4);
  const RowCenter center = RowCenter::Measure(rows, HashSpec(), Parallelism{});
  const float weights[4] = {1, 2, 3, 4};
  float centered[4];
  float extras[2];
  center.Center(weights, 5.0f, centered, extras);
  EXPECT_EQ(centered[3], 4.0f);
  EXPECT_EQ(extras[0], 5.0f);
  EXPECT_EQ(extras[1], 0.0f);
}

// The store refuses such rows; a shard must survive its own bug all the same.
TEST(RowCenterTest, NotANumberDoesNotBreakTheQuantile) {
  TestRows rows = TestRows::Random(50, 4, 7);
  rows.weights[3][1] = std::numeric_limits<float>::quiet_NaN();
  rows.weights[9][2] = std::numeric_limits<float>::infinity();
  HashSpec spec;
  spec.center = false;
  const RowCenter center = RowCenter::Measure(rows, spec, Parallelism{});
  float centered[4];
  float extras[2];
  center.Center(rows.weights[0].data(), rows.biases[0], centered, extras);
  EXPECT_TRUE(std::isfinite(extras[1]));
}

}  // namespace
}  // namespace dslide
