#include "core/engine/lsh/simhash.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

HashSpec SimHashSpec(int64_t codes, int64_t tables, uint64_t seed = 1) {
  HashSpec spec;
  spec.codes_per_table = codes;
  spec.num_tables = tables;
  spec.seed = seed;
  return spec;
}

// Float and double projections may only disagree in sign within the rounding error: each of the
// 3 log2(n) butterfly stages and the 2 extras adds at most u = 2^-24 relative to the partial sums,
// whose size is at most the 1-norm of the vector.
TEST(SimHashTest, BitsAreTheSignsOfDenseProjections) {
  for (const int64_t dim : {5, 16, 40}) {
    const HashSpec spec = SimHashSpec(10, 9);
    const SimHash simhash(spec, dim);
    int64_t close = 0;
    for (uint64_t trial = 0; trial < 10; ++trial) {
      CounterRng rng(trial);
      reference::HashVector row;
      row.is_query = false;
      row.extra1 = rng.NextGaussian();
      row.extra2 = std::abs(rng.NextGaussian());
      double norm1 = std::abs(row.extra1) + row.extra2;
      for (int64_t i = 0; i < dim; ++i) {
        row.values.push_back(rng.NextGaussian());
        norm1 += std::abs(row.values.back());
      }
      const std::vector<float> extras = {row.extra1, row.extra2};
      std::vector<uint32_t> fingerprints(9);
      simhash.HashRows(row.values, extras, 1, Parallelism{}, absl::MakeSpan(fingerprints));
      const std::vector<double> projections = reference::DenseSimHashProjections(spec, row);
      ASSERT_EQ(projections.size(), 90u);
      for (int64_t j = 0; j < 90; ++j) {
        const double tolerance = 20 * 0x1p-24 * norm1;
        if (std::abs(projections[j]) <= tolerance) {
          ++close;
          continue;
        }
        EXPECT_EQ((fingerprints[j / 10] >> (j % 10)) & 1, projections[j] > 0 ? 1u : 0u)
            << "dim " << dim << " bit " << j;
      }
    }
    EXPECT_LT(close, 9) << "the comparison says little";
  }
}

// Two vectors at an angle theta differ in a bit with probability theta / pi (Charikar 2002).
TEST(SimHashTest, CollisionProbabilityFollowsTheAngle) {
  constexpr int64_t kDim = 128;
  constexpr int64_t kPairs = 60;
  constexpr int64_t kTables = 64;  // of 10 bits: 5 blocks of 128
  for (const double theta : {0.1, 0.5, 1.0, std::numbers::pi / 2, 2.5}) {
    int64_t differing = 0;
    for (uint64_t pair = 0; pair < kPairs; ++pair) {
      const SimHash simhash(SimHashSpec(10, kTables, pair), kDim);
      CounterRng rng(1000 + pair);
      std::vector<double> a(kDim), b(kDim);
      double aa = 0, ab = 0, bb = 0;
      for (double& value : a) value = static_cast<double>(rng.NextGaussian());
      for (double& value : b) value = static_cast<double>(rng.NextGaussian());
      for (int64_t i = 0; i < kDim; ++i) {
        aa += a[i] * a[i];
        ab += a[i] * b[i];
      }
      for (int64_t i = 0; i < kDim; ++i) {
        b[i] -= a[i] * ab / aa;
        bb += b[i] * b[i];
      }
      std::vector<float> two(2 * kDim);
      for (int64_t i = 0; i < kDim; ++i) {
        two[i] = static_cast<float>(a[i] / std::sqrt(aa));
        two[kDim + i] = static_cast<float>(std::cos(theta) * a[i] / std::sqrt(aa) +
                                           std::sin(theta) * b[i] / std::sqrt(bb));
      }
      const std::vector<float> extras(4, 0.0f);
      std::vector<uint32_t> fingerprints(2 * kTables);
      simhash.HashRows(two, extras, 2, Parallelism{}, absl::MakeSpan(fingerprints));
      for (int64_t t = 0; t < kTables; ++t) {
        differing += __builtin_popcount(fingerprints[t] ^ fingerprints[kTables + t]);
      }
    }
    constexpr double kBits = kPairs * kTables * 10.0;
    const double expected = theta / std::numbers::pi;
    // Five standard deviations of independent bits.
    const double tolerance = 5 * std::sqrt(expected * (1 - expected) / kBits);
    EXPECT_NEAR(static_cast<double>(differing) / kBits, expected, tolerance) << "theta " << theta;
  }
}

// Also for vectors with one entry, where a single round of signs and Hadamard would fail.
TEST(SimHashTest, OneHotVectorsLookAtRightAngles) {
  constexpr int64_t kDim = 64;
  constexpr int64_t kTables = 32;
  int64_t differing = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const SimHash simhash(SimHashSpec(10, kTables, seed), kDim);
    std::vector<float> two(2 * kDim, 0.0f);
    two[seed] = 1.0f;
    two[kDim + (seed * 7 + 1) % kDim] = 1.0f;
    const std::vector<float> extras(4, 0.0f);
    std::vector<uint32_t> fingerprints(2 * kTables);
    simhash.HashRows(two, extras, 2, Parallelism{}, absl::MakeSpan(fingerprints));
    for (int64_t t = 0; t < kTables; ++t) {
      differing += __builtin_popcount(fingerprints[t] ^ fingerprints[kTables + t]);
    }
  }
  EXPECT_NEAR(static_cast<double>(differing) / (60 * kTables * 10), 0.5, 0.02);
}

TEST(SimHashTest, ScalingByAPowerOfTwoChangesNoBit) {
  const SimHash simhash(SimHashSpec(10, 9), 40);
  std::vector<float> row = RandomHidden(1, 40, 0.0, 3);
  std::vector<float> extras = {0.5f, -0.25f};
  std::vector<uint32_t> before(9), after(9);
  simhash.HashRows(row, extras, 1, Parallelism{}, absl::MakeSpan(before));
  for (float& value : row) value *= 1024.0f;
  for (float& value : extras) value *= 1024.0f;
  simhash.HashRows(row, extras, 1, Parallelism{}, absl::MakeSpan(after));
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace dslide
