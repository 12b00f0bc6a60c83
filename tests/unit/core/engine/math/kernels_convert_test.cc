#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/bfloat16.h"
#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/reference/math_reference.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class ConvertKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(ConvertKernelTest);

// The contract's tolerance: around and below the smallest normal number, 0 is right as well.
double ExpBound(double expected) {
  return expected < 1.0001 * FLT_MIN ? 1.0001 * FLT_MIN : expected * 0x1.0p-20;
}

TEST_P(ConvertKernelTest, ExpIsWithinItsBoundOverTheWholeRange) {
  std::vector<float> x;
  for (float value = -110.0f; value < 95.0f; value += 0.00731f) x.push_back(value);
  GuardedArray<float> y(x);
  const float shift = 0.125f;
  ExpShifted(y.data(), static_cast<int64_t>(x.size()), shift);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = reference::ClampedExp(x[i] - shift);
    ASSERT_NEAR(y[i], expected, ExpBound(expected)) << "x " << x[i];
  }
}

TEST_P(ConvertKernelTest, ExpIsRightAtEveryLength) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> x(RandomFloats(n, values, 41));
      const std::vector<float> before = x.ToVector();
      ExpShifted(x.data(), n, 1.5f);
      for (int64_t i = 0; i < n; ++i) {
        const double expected = reference::ClampedExp(before[i] - 1.5f);
        ASSERT_NEAR(x[i], expected, ExpBound(expected));
      }
    }
  }
}

TEST_P(ConvertKernelTest, ExpOfSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 16, 19}) {
    std::vector<float> x(n, infinity);
    ExpShifted(x.data(), n, 0.0f);
    EXPECT_NEAR(x[n - 1], std::exp(88.0), std::exp(88.0) * 0x1.0p-20);
    x.assign(n, -infinity);
    ExpShifted(x.data(), n, 0.0f);
    EXPECT_EQ(x[n - 1], 0.0f);
    x.assign(n, -87.4f);
    ExpShifted(x.data(), n, 0.0f);
    EXPECT_EQ(x[n - 1], 0.0f) << "no subnormal results";
    x.assign(n, 3.0f);
    ExpShifted(x.data(), n, 3.0f);
    EXPECT_EQ(x[n - 1], 1.0f);
    x.assign(n, std::nanf(""));
    ExpShifted(x.data(), n, 0.0f);
    EXPECT_TRUE(std::isnan(x[n - 1]));
  }
}

TEST_P(ConvertKernelTest, ExpHasTheSameBitsAtEveryPosition) {
  const std::vector<float> x = RandomFloats(67, Values::kWide, 42);
  std::vector<float> whole = x;
  ExpShifted(whole.data(), 67, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    float one = x[i];
    ExpShifted(&one, 1, 0.0f);
    EXPECT_EQ(std::bit_cast<uint32_t>(one), std::bit_cast<uint32_t>(whole[i]));
  }
}

// Every upper half with lower halves around the ties, NaN and infinity included.
std::vector<float> EveryBFloat16Neighbourhood() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return values;
}

TEST_P(ConvertKernelTest, RoundingToBFloat16MatchesTheReferenceBitForBit) {
  GuardedArray<float> in(EveryBFloat16Neighbourhood());
  const auto n = static_cast<int64_t>(in.span().size());
  GuardedArray<BFloat16> out(n);
  FloatsToBFloat16(in.data(), n, out.data());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(out[i].bits, reference::ToBFloat16(in[i]).bits)
        << std::hex << std::bit_cast<uint32_t>(in[i]);
  }
}

TEST_P(ConvertKernelTest, BFloat16ConversionsWorkAtEveryLength) {
  for (const int64_t n : Lengths()) {
    GuardedArray<float> in(RandomFloats(n, Values::kWide, 43));
    GuardedArray<BFloat16> narrow(n);
    GuardedArray<float> wide(n);
    FloatsToBFloat16(in.data(), n, narrow.data());
    BFloat16ToFloats(narrow.data(), n, wide.data());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(narrow[i].bits, ToBFloat16(in[i]).bits);
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(ToFloat(narrow[i])));
      ASSERT_NEAR(wide[i], in[i], std::fabs(in[i]) * 0x1.0p-8);
    }
  }
}

TEST_P(ConvertKernelTest, WideningIsExactForEveryPattern) {
  std::vector<BFloat16> in(0x10000);
  for (uint32_t bits = 0; bits < in.size(); ++bits) in[bits].bits = static_cast<uint16_t>(bits);
  std::vector<float> out(in.size());
  BFloat16ToFloats(in.data(), static_cast<int64_t>(in.size()), out.data());
  for (uint32_t bits = 0; bits < in.size(); ++bits) {
    ASSERT_EQ(std::bit_cast<uint32_t>(out[bits]), bits << 16);
  }
}

}  // namespace
}  // namespace dslide
