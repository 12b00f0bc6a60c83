#include "bench/dense/blas_core.h"

#include "gtest/gtest.h"

namespace dslide::bench {
namespace {

TEST(BetterBlasCoreTest, LeavesAGoodChoice) {
  EXPECT_EQ(BetterBlasCore("SapphireRapids", "AVX3_ZEN4"), "");
  EXPECT_EQ(BetterBlasCore("Zen", "AVX2"), "");
  EXPECT_EQ(BetterBlasCore("Nehalem", "SSE4"), "");
}

TEST(BetterBlasCoreTest, ReplacesAFallback) {
  EXPECT_EQ(BetterBlasCore("Prescott", "AVX3"), "SkylakeX");
  EXPECT_EQ(BetterBlasCore("Prescott", "AVX3_DL"), "SkylakeX");
  EXPECT_EQ(BetterBlasCore("Nehalem", "AVX2"), "Haswell");
}

}  // namespace
}  // namespace dslide::bench
