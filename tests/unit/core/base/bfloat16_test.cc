#include "core/base/bfloat16.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "tests/reference/math_reference.h"

namespace dslide {
namespace {

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(BFloat16Test, KnownRoundings) {
  EXPECT_EQ(ToBFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(ToBFloat16(-2.0f).bits, 0xc000);
  EXPECT_EQ(ToBFloat16(0.0f).bits, 0x0000);
  EXPECT_EQ(ToBFloat16(-0.0f).bits, 0x8000);
  // Ties go to the even neighbour, in both directions.
  EXPECT_EQ(ToBFloat16(FromBits(0x3f808000)).bits, 0x3f80);
  EXPECT_EQ(ToBFloat16(FromBits(0x3f818000)).bits, 0x3f82);
  EXPECT_EQ(ToBFloat16(FromBits(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(ToBFloat16(FromBits(0x3f817fff)).bits, 0x3f81);
  // A carry into the exponent.
  EXPECT_EQ(ToBFloat16(FromBits(0x3fffffff)).bits, 0x4000);
}

TEST(BFloat16Test, ExtremesAndSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ToBFloat16(FLT_MAX).bits, 0x7f80) << "rounds up to infinity";
  EXPECT_EQ(ToBFloat16(infinity).bits, 0x7f80);
  EXPECT_EQ(ToBFloat16(-infinity).bits, 0xff80);
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(std::nanf("")))));
  // A NaN whose payload is only in the lower half must not become infinity.
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(FromBits(0x7f800001)))));
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(FromBits(0xffffffff)))));
  EXPECT_EQ(ToBFloat16(FromBits(0x00000001)).bits, 0x0000);
  EXPECT_EQ(ToBFloat16(FromBits(0x00018000)).bits, 0x0002);
}

TEST(BFloat16Test, EveryPatternSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 narrow{static_cast<uint16_t>(bits)};
    if (std::isnan(ToFloat(narrow))) continue;
    ASSERT_EQ(ToBFloat16(ToFloat(narrow)).bits, bits);
  }
}

TEST(BFloat16Test, RoundsAsTheReferenceDoes) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65'521) {
    const float value = FromBits(static_cast<uint32_t>(bits));
    ASSERT_EQ(ToBFloat16(value).bits, reference::ToBFloat16(value).bits) << std::hex << bits;
  }
}

}  // namespace
}  // namespace dslide
