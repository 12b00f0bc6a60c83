#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/bfloat16.h"
#include "core/base/counter_rng.h"
#include "core/base/stochastic_rounding.h"
#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/reference/math_reference.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class RoundKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(RoundKernelTest);

// Upper halves of every kind with lower halves around the ends and the middle.
std::vector<float> AllKinds() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; upper += 3) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  for (const uint32_t bits : {0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0x7f800001u, 0xffffffffu}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

TEST_P(RoundKernelTest, MatchesTheReferenceBitForBit) {
  GuardedArray<float> in(AllKinds());
  const auto n = static_cast<int64_t>(in.span().size());
  GuardedArray<BFloat16> out(n);
  const RoundingKey key = RoundingKey::Of(CounterBits(1, 2));
  RoundToBFloat16(in.data(), n, key, out.data());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(out[i].bits,
              reference::RoundStochastically(in[i], reference::RoundingBits(key.a, key.b, i)))
        << i << " " << std::hex << std::bit_cast<uint32_t>(in[i]);
  }
}

TEST_P(RoundKernelTest, WorksAtEveryLengthAndReturnsTheLargest) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> in(RandomFloats(n, values, 51));
      GuardedArray<BFloat16> out(n);
      const RoundingKey key{static_cast<uint32_t>(n), 99};
      const float largest = RoundToBFloat16(in.data(), n, key, out.data());
      float expected = 0.0f;
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(out[i].bits,
                  RoundStochastically(in[i], RoundingBits(key, static_cast<uint32_t>(i))).bits);
        expected = std::max(expected, std::fabs(ToFloat(out[i])));
      }
      EXPECT_EQ(largest, expected);
    }
  }
}

TEST_P(RoundKernelTest, WhatIsNotFiniteIsReturned) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 31, 64}) {
    std::vector<float> in(n, 1.0f);
    std::vector<BFloat16> out(n);
    in[n - 1] = -infinity;
    EXPECT_EQ(RoundToBFloat16(in.data(), n, {}, out.data()), infinity);
    in[n / 2] = std::nanf("");
    EXPECT_TRUE(std::isnan(RoundToBFloat16(in.data(), n, {}, out.data())));
    // Rounding up must not make infinity out of the largest number.
    in.assign(n, std::numeric_limits<float>::max());
    EXPECT_LT(RoundToBFloat16(in.data(), n, {5, 6}, out.data()), infinity);
  }
}

// Chance decides one draw, not the mean: six standard errors of 2^17 draws with p = 1/5.
TEST_P(RoundKernelTest, TheMeanIsTheValue) {
  constexpr int64_t kDim = 128;
  constexpr int64_t kDraws = 1024;
  const float low = 1.0f;
  const float step = 0x1.0p-7f;
  const std::vector<float> in(kDim, low + step / 5.0f);
  std::vector<BFloat16> out(kDim);
  std::vector<int64_t> ups(kDim, 0);
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    RoundToBFloat16(in.data(), kDim, RoundingKey::Of(CounterBits(7, draw)), out.data());
    for (int64_t i = 0; i < kDim; ++i) ups[i] += ToFloat(out[i]) > low ? 1 : 0;
  }
  double total = 0.0;
  for (const int64_t up : ups) {
    // A single element: six standard errors of 1,024 draws.
    EXPECT_NEAR(static_cast<double>(up) / kDraws, 0.2, 6 * 0.4 / 32);
    total += static_cast<double>(up);
  }
  EXPECT_NEAR(total / (kDim * kDraws), 0.2, 6 * 0.4 / std::sqrt(double{kDim * kDraws}));
}

}  // namespace
}  // namespace dslide
