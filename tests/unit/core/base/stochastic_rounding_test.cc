#include "core/base/stochastic_rounding.h"

#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

// Written out once, so that other languages and later versions can be held to it.
TEST(StochasticRoundingTest, WordsAreThoseOfTheContract) {
  constexpr RoundingKey kKey{0x12345678u, 0x9abcdef0u};
  const auto by_hand = [](uint32_t x, uint32_t b) {
    x ^= x >> 16;
    x = static_cast<uint32_t>(uint64_t{x} * 2146121005u);
    x = (x ^ (x >> 15)) ^ b;
    x = static_cast<uint32_t>(uint64_t{x} * 2221713035u);
    return x ^ (x >> 16);
  };
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(RoundingWord(kKey, i), by_hand(kKey.a + i * 2654435769u, kKey.b));
  }
}

TEST(StochasticRoundingTest, ElementsShareWordsInPairsSixteenApart) {
  constexpr RoundingKey kKey{1, 2};
  for (uint32_t group = 0; group < 3; ++group) {
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t word = RoundingWord(kKey, group * 16 + i);
      EXPECT_EQ(RoundingBits(kKey, group * 32 + i), word & 0xffff);
      EXPECT_EQ(RoundingBits(kKey, group * 32 + 16 + i), word >> 16);
    }
  }
}

TEST(StochasticRoundingTest, RoundsUpForExactlyTheCutOffPartOfTheDraws) {
  const float value = std::bit_cast<float>(0x3f80c000u);  // three quarters of the way
  int64_t ups = 0;
  for (uint32_t random = 0; random < 0x10000; ++random) {
    const uint16_t bits = RoundStochastically(value, static_cast<uint16_t>(random)).bits;
    ASSERT_TRUE(bits == 0x3f80 || bits == 0x3f81);
    ups += bits - 0x3f80;
    ASSERT_EQ(RoundStochastically(-value, static_cast<uint16_t>(random)).bits, bits | 0x8000);
  }
  EXPECT_EQ(ups, 0xc000);
}

TEST(StochasticRoundingTest, NumbersOfBFloat16Stay) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    const float value = std::bit_cast<float>(upper << 16);
    if (std::isnan(value)) continue;
    for (const uint16_t random : {0x0000, 0x8000, 0xffff}) {
      ASSERT_EQ(RoundStochastically(value, random).bits, upper);
    }
  }
}

// Bits of neighbouring elements, rows and updates must not follow from each other: the correlation
// of 2^16 pairs is within six standard errors of 0.
TEST(StochasticRoundingTest, NeighboursAreUncorrelated) {
  const auto correlation = [](const auto& first, const auto& second) {
    // Not a constant expression: a compiler would take 20 s to evaluate this.
    volatile double sum = 0.0;
    for (uint64_t i = 0; i < 65536; ++i) {
      sum = sum + (first(i) / 65535.0 - 0.5) * (second(i) / 65535.0 - 0.5) * 12.0;
    }
    return sum / 65536.0;
  };
  const auto bits = [](uint64_t row, uint64_t step, uint32_t element) {
    return RoundingBits(RoundingKey::Of(CounterBits(DeriveKey(3, row), step)), element);
  };
  const double limit = 6.0 / 256.0;
  EXPECT_NEAR(correlation([&](uint64_t i) { return bits(i, 1, 0); },
                          [&](uint64_t i) { return bits(i, 1, 1); }),
              0.0, limit);
  EXPECT_NEAR(correlation([&](uint64_t i) { return bits(i, 1, 0); },
                          [&](uint64_t i) { return bits(i, 1, 16); }),
              0.0, limit);
  EXPECT_NEAR(correlation([&](uint64_t i) { return bits(9, i, 5); },
                          [&](uint64_t i) { return bits(9, i + 1, 5); }),
              0.0, limit);
  EXPECT_NEAR(correlation([&](uint64_t i) { return bits(i, 4, 5); },
                          [&](uint64_t i) { return bits(i + 1, 4, 5); }),
              0.0, limit);
}

}  // namespace
}  // namespace dslide
