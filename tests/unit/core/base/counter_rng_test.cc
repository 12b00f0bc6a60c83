#include "core/base/counter_rng.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace dslide {
namespace {

// SplitMix64 as published: its outputs for seed 1234567 are the known values of Mix64.
TEST(CounterRngTest, Mix64HasThePublishedValuesOfSplitMix64) {
  uint64_t state = 1234567;
  std::vector<uint64_t> values;
  for (int i = 0; i < 5; ++i) values.push_back(Mix64(state += 0x9e3779b97f4a7c15ULL));
  EXPECT_EQ(values, (std::vector<uint64_t>{6457827717110365317ULL, 3203168211198807973ULL,
                                           9817491932198370423ULL, 4593380528125082431ULL,
                                           16408922859458223821ULL}));
}

// Weights of every model and fingerprints of every client depend on these values: they are part of
// the wire contract and may never change.
TEST(CounterRngTest, ValuesAreFrozen) {
  EXPECT_EQ(CounterBits(0, 0), 0x48218226ff3cd4bfULL);
  EXPECT_EQ(CounterBits(1, 0), 0x5c52bd4054e958c9ULL);
  EXPECT_EQ(CounterBits(0, 1), 0x397ab29740681d9ULL);
  EXPECT_EQ(CounterBits(42, 1'000'000'007), 0xc67bf093c6b46655ULL);
  EXPECT_EQ(DeriveKey(42, 7), 0x2bd85db24a961783ULL);
  CounterRng rng(7);
  EXPECT_EQ(std::bit_cast<uint32_t>(rng.NextUniform()), 0x3f09b20fu);
  EXPECT_EQ(rng.NextBelow(1000), 8u);
  EXPECT_NEAR(rng.NextGaussian(), -1.461360990, 1e-6);
}

TEST(CounterRngTest, AValueDependsOnKeyAndCounterOnly) {
  CounterRng rng(99);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(rng.NextBits(), CounterBits(99, i));
}

TEST(CounterRngTest, NeighbouringKeysAndCountersGiveUnrelatedBits) {
  // Each of 64 bits differs with probability 1/2: the mean distance of 4,000 pairs is 32 with a
  // standard deviation of 0.063. Five of them are allowed.
  int64_t by_counter = 0;
  int64_t by_key = 0;
  constexpr int64_t kPairs = 4000;
  for (uint64_t i = 0; i < kPairs; ++i) {
    by_counter += std::popcount(CounterBits(5, i) ^ CounterBits(5, i + 1));
    by_key += std::popcount(CounterBits(i, 5) ^ CounterBits(i + 1, 5));
  }
  EXPECT_NEAR(static_cast<double>(by_counter) / kPairs, 32.0, 0.32);
  EXPECT_NEAR(static_cast<double>(by_key) / kPairs, 32.0, 0.32);
}

TEST(CounterRngTest, NoTwoCountersOfAKeyCollide) {
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 100'000; ++i) seen.insert(CounterBits(3, i));
  EXPECT_EQ(seen.size(), 100'000u);
}

// Sum of (observed - expected)^2 / expected.
double ChiSquare(const std::vector<int64_t>& counts, double expected) {
  double sum = 0.0;
  for (const int64_t count : counts) {
    sum += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected);
  }
  return sum / expected;
}

TEST(CounterRngTest, UniformFillsItsIntervalEvenly) {
  std::vector<int64_t> counts(100);
  CounterRng rng(11);
  for (int i = 0; i < 100'000; ++i) {
    const float x = rng.NextUniform();
    ASSERT_GE(x, 0.0f);
    ASSERT_LT(x, 1.0f);
    ++counts[static_cast<size_t>(x * 100.0f)];
  }
  // 99 degrees of freedom: mean 99, standard deviation 14; five of them allowed.
  EXPECT_LT(ChiSquare(counts, 1000.0), 169.0);
}

TEST(CounterRngTest, NextBelowFillsItsRangeEvenly) {
  std::vector<int64_t> counts(7);
  CounterRng rng(12);
  for (int i = 0; i < 70'000; ++i) {
    const uint64_t x = rng.NextBelow(7);
    ASSERT_LT(x, 7u);
    ++counts[x];
  }
  // 6 degrees of freedom: mean 6, standard deviation 3.5; five of them allowed.
  EXPECT_LT(ChiSquare(counts, 10'000.0), 23.5);
  EXPECT_EQ(CounterRng(13).NextBelow(1), 0u);
}

TEST(CounterRngTest, GaussianHasItsMoments) {
  constexpr int kDraws = 100'000;
  CounterRng rng(14);
  double sum = 0.0;
  double squares = 0.0;
  double fourth_powers = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.NextGaussian();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth_powers += x * x * x * x;
  }
  // Standard deviations of the means: 0.0032, 0.0045 and 0.031; five of each allowed.
  EXPECT_NEAR(sum / kDraws, 0.0, 0.016);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.023);
  EXPECT_NEAR(fourth_powers / kDraws, 3.0, 0.16);
}

}  // namespace
}  // namespace dslide
