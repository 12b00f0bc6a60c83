#include "core/engine/near/row_directions.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/base/counter_rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::Each;

constexpr int64_t kWide = 150;
constexpr int64_t kSample = 200;

// Rows of `rank` random directions, and noise in all others.
std::vector<float> SampleOf(int64_t rank, float noise, float scale) {
  CounterRng rng(11);
  std::vector<float> space(static_cast<size_t>(rank * kWide));
  for (float& x : space) x = rng.NextGaussian();
  std::vector<float> sample;
  for (int64_t i = 0; i < kSample; ++i) {
    std::vector<float> row(kWide, 0.0f);
    for (int64_t j = 0; j < rank; ++j) {
      const float along = rng.NextGaussian();
      for (int64_t k = 0; k < kWide; ++k) row[k] += along * space[j * kWide + k];
    }
    for (const float x : row) sample.push_back(scale * (x + noise * rng.NextGaussian()));
  }
  return sample;
}

double Product(absl::Span<const float> a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

// The share of the squares of all rows that the directions hold.
double HeldBy(const RowDirections& directions, const std::vector<float>& rows) {
  double held = 0;
  std::array<float, RowDirections::kCount> along = {};
  for (size_t i = 0; i < rows.size(); i += kWide) {
    directions.Project(&rows[i], along.data());
    held += Product(along, along);
  }
  return held / Product(rows, rows);
}

TEST(RowDirectionsTest, AreOrthonormalAndWhatProjectMultipliesWith) {
  const std::vector<float> sample = SampleOf(kWide, 0.0f, 1.0f);
  const auto directions = RowDirections::Measure(sample, kWide, Parallelism{1});
  std::array<float, RowDirections::kCount> along = {};
  directions.Project(sample.data(), along.data());
  const absl::Span<const float> first(sample.data(), kWide);
  for (int64_t i = 0; i < RowDirections::kCount; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      EXPECT_NEAR(Product(directions.Direction(i), directions.Direction(j)), i == j ? 1 : 0, 1e-3);
    }
    EXPECT_NEAR(along[i], Product(directions.Direction(i), first), 1e-2);
  }
}

TEST(RowDirectionsTest, HoldWhatRowsOfFewDimensionsAre) {
  for (const float scale : {1.0f, 1e-12f, 1e9f}) {
    const std::vector<float> few = SampleOf(20, 0.0f, scale);
    EXPECT_GT(HeldBy(RowDirections::Measure(few, kWide, Parallelism{1}), few), 0.999) << scale;
  }
  const std::vector<float> noisy = SampleOf(20, 1.0f, 1.0f);
  EXPECT_GT(HeldBy(RowDirections::Measure(noisy, kWide, Parallelism{1}), noisy), 0.95);
}

TEST(RowDirectionsTest, BeyondTheRankOfTheSampleAreZero) {
  const std::vector<float> few = SampleOf(3, 0.0f, 1.0f);
  const auto directions = RowDirections::Measure(few, kWide, Parallelism{1});
  int64_t zeros = 0;
  for (int64_t i = 0; i < RowDirections::kCount; ++i) {
    const double square = Product(directions.Direction(i), directions.Direction(i));
    EXPECT_TRUE(square == 0 || std::abs(square - 1) < 1e-3) << square;
    zeros += square == 0 ? 1 : 0;
  }
  EXPECT_GE(zeros, RowDirections::kCount - 3 - 3);
  const std::vector<float> nothing(kSample * kWide, 0.0f);
  const auto none = RowDirections::Measure(nothing, kWide, Parallelism{1});
  std::array<float, RowDirections::kCount> along = {};
  none.Project(few.data(), along.data());
  EXPECT_THAT(along, Each(0.0f));
}

TEST(RowDirectionsTest, DoNotDependOnThreads) {
  const std::vector<float> sample = SampleOf(40, 0.5f, 1.0f);
  const auto one = RowDirections::Measure(sample, kWide, Parallelism{1});
  const auto three = RowDirections::Measure(sample, kWide, Parallelism{3});
  for (int64_t i = 0; i < RowDirections::kCount; ++i) {
    EXPECT_EQ(one.Direction(i), three.Direction(i));
  }
}

}  // namespace
}  // namespace dslide
