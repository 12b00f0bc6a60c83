#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/reference/math_reference.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class DotKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(DotKernelTest);

TEST_P(DotKernelTest, DotIsWithinItsBoundOfTheReference) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> a(RandomFloats(n, values, 1));
      GuardedArray<float> b(RandomFloats(n, values, 2));
      const reference::DotResult expected = reference::Dot(a.span(), b.span());
      const double bound = 2 * n * kU * expected.absolute_sum + n * kTiny;
      EXPECT_NEAR(Dot(a.data(), b.data(), n), expected.sum, bound) << "n " << n;
    }
  }
}

TEST_P(DotKernelTest, SumOfSquaresIsWithinItsBoundOfTheReference) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> a(RandomFloats(n, values, 3));
      const double expected = reference::Dot(a.span(), a.span()).sum;
      EXPECT_NEAR(SumOfSquares(a.data(), n), expected, 2 * n * kU * expected + n * kFlushed)
          << "n " << n;
    }
  }
}

TEST_P(DotKernelTest, DotOfNothingIsZero) { EXPECT_EQ(Dot(nullptr, nullptr, 0), 0.0f); }

TEST_P(DotKernelTest, DotHasTheSameBitsAtEveryAddress) {
  for (const int64_t n : Lengths()) {
    const std::vector<float> a = RandomFloats(n, Values::kWide, 4);
    const std::vector<float> b = RandomFloats(n, Values::kWide, 5);
    const float expected = Dot(a.data(), b.data(), n);
    for (int64_t shift = 1; shift < 17; ++shift) {
      std::vector<float> shifted(a.size() + shift);
      std::copy(a.begin(), a.end(), shifted.begin() + shift);
      EXPECT_EQ(Dot(shifted.data() + shift, b.data(), n), expected) << "n " << n;
    }
  }
}

TEST_P(DotKernelTest, DotPassesNanOn) {
  for (const int64_t n : {1, 5, 16, 100, 128}) {
    for (int64_t at = 0; at < n; ++at) {
      std::vector<float> a = RandomFloats(n, Values::kUnit, 6);
      const std::vector<float> b = RandomFloats(n, Values::kUnit, 7);
      a[at] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(Dot(a.data(), b.data(), n)));
    }
  }
}

TEST_P(DotKernelTest, AllWithinFindsOneBadElementAnywhere) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t n : Lengths()) {
    GuardedArray<float> x(RandomFloats(n, Values::kUnit, 8));
    EXPECT_TRUE(AllWithin(x.data(), n, 1.0f));
    for (int64_t at = 0; at < n; ++at) {
      const float good = x[at];
      for (const float bad : {1.0000001f, -1.0000001f, infinity, -infinity, nan, -nan}) {
        x[at] = bad;
        EXPECT_FALSE(AllWithin(x.data(), n, 1.0f)) << "n " << n << " at " << at << " " << bad;
      }
      x[at] = -1.0f;
      EXPECT_TRUE(AllWithin(x.data(), n, 1.0f));
      x[at] = good;
    }
  }
}

TEST_P(DotKernelTest, AllWithinRefusesInfinityUnderEveryBound) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t n : {1, 16, 17}) {
    const std::vector<float> huge(n, std::numeric_limits<float>::max());
    EXPECT_TRUE(AllWithin(huge.data(), n, infinity));
    EXPECT_FALSE(AllWithin(huge.data(), n, nan));
    const std::vector<float> infinite(n, infinity);
    EXPECT_FALSE(AllWithin(infinite.data(), n, infinity));
  }
}

TEST_P(DotKernelTest, MaxMagnitudeFindsTheLargestAtEveryAddress) {
  for (const int64_t n : Lengths()) {
    const std::vector<float> x = RandomFloats(n, Values::kWide, 8);
    float expected = 0;
    for (const float value : x) expected = std::max(expected, std::fabs(value));
    std::vector<char> bytes(n * sizeof(float) + 8);
    for (size_t shift = 0; shift < 8; ++shift) {
      std::copy_n(reinterpret_cast<const char*>(x.data()), n * sizeof(float), bytes.data() + shift);
      EXPECT_EQ(MaxMagnitude(bytes.data() + shift, n), expected) << "n " << n;
    }
  }
}

TEST_P(DotKernelTest, MaxMagnitudeShowsWhatIsNoNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 5, 16, 33}) {
    for (int64_t at = 0; at < n; ++at) {
      std::vector<float> x(n, -1.0f);
      const auto* const bytes = reinterpret_cast<const char*>(x.data());
      x[at] = -kInfinity;
      EXPECT_EQ(MaxMagnitude(bytes, n), kInfinity);
      x[n - 1 - at] = -kNan;
      EXPECT_TRUE(std::isnan(MaxMagnitude(bytes, n)));
    }
  }
  EXPECT_EQ(MaxMagnitude(nullptr, 0), 0.0f);
}

}  // namespace
}  // namespace dslide
