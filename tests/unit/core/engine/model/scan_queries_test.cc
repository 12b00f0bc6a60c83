#include "core/engine/model/scan_queries.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/engine/math/kernels.h"
#include "core/engine/rows/aligned_floats.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class ScanQueriesTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(ScanQueriesTest);

// Which of the queries a row reaches that has the exact logit, or the next larger float, as wanted.
struct Reach {
  int64_t missed = 0;   // of queries for which the exact logit is wanted
  int64_t reached = 0;  // of queries for which one of twice the row's and the query's length is
  int64_t of = 0;
};

Reach Measure(const std::vector<float>& weights, float bias, const std::vector<float>& hidden,
              int64_t count, int64_t dim) {
  const ScanQueries queries(hidden, count, dim);
  std::vector<ScanLine<int8_t>> whole(static_cast<size_t>(queries.shape().segments()));
  ScannedRow row;
  const float* const all = weights.data();
  ScanRows(&all, 1, queries.shape(), whole.data()->whole, &row);
  row.bias = ScanQueries::BiasOf(bias);
  AlignedFloats exact;
  AlignedFloats far;
  exact.Resize(queries.blocks() * kScanQueries);
  far.Resize(queries.blocks() * kScanQueries);
  Reach reach;
  for (int64_t q = 0; q < count; ++q) {
    const uint32_t first = 0;
    RowLogits(weights.data(), bias, hidden.data() + q * dim, dim, dim, {&first, 1},
              exact.data() + q);
    const float square = Dot(hidden.data() + q * dim, hidden.data() + q * dim, dim);
    far.data()[q] = bias + 2 * row.length * std::sqrt(square) + 1e-6f + std::abs(bias);
  }
  for (int64_t block = 0; block < queries.blocks(); ++block) {
    uint32_t reached = 0;
    ReachedQueries(whole.data()->whole, &row, 1, queries.Block(block, exact.data()), &reached);
    const int64_t of = std::min(kScanQueries, count - block * kScanQueries);
    reach.missed += of - std::popcount(reached);
    ReachedQueries(whole.data()->whole, &row, 1, queries.Block(block, far.data()), &reached);
    reach.reached += std::popcount(reached);
    reach.of += of;
  }
  return reach;
}

TEST_P(ScanQueriesTest, NoRowIsMissedWhoseLogitIsWanted) {
  for (const int64_t dim : {1, 2, 3, 16, 63, 64, 65, 100, 128, 200, 512}) {
    for (const Values row_values : AllValues()) {
      for (const Values query_values : AllValues()) {
        for (const bool is_signed : {false, true}) {
          constexpr int64_t kCount = 33;  // three blocks
          std::vector<float> hidden = RandomFloats(kCount * dim, query_values, 7);
          if (!is_signed) {
            for (float& x : hidden) x = std::max(0.0f, x);
          }
          for (uint64_t seed = 0; seed < 8; ++seed) {
            const std::vector<float> weights = RandomFloats(dim, row_values, seed);
            const float bias = seed % 2 == 0 ? 0.0f : std::ldexp(1.0f, static_cast<int>(seed) - 4);
            const Reach reach = Measure(weights, bias, hidden, kCount, dim);
            EXPECT_EQ(reach.of, kCount);
            EXPECT_EQ(reach.missed, 0)
                << "dim " << dim << " seed " << seed << " signed " << is_signed;
            EXPECT_EQ(reach.reached, 0) << "dim " << dim << " seed " << seed << ": nothing pruned";
          }
        }
      }
    }
  }
}

// Rows and queries whose every number is rounded by a half, all errors of one sign.
TEST_P(ScanQueriesTest, NoRowIsMissedWhereAllIsRoundedOneWay) {
  for (const int64_t dim : {4, 64, 128, 500}) {
    for (const float part : {0.49f, 0.5f, 0.51f}) {
      std::vector<float> weights(static_cast<size_t>(dim), 10.0f + part);
      std::vector<float> hidden(static_cast<size_t>(8 * dim), 20.0f + part);
      for (int64_t i = 0; i < dim; i += 64) weights[i] = 100.0f;
      for (int64_t i = 0; i < 8 * dim; i += 61) hidden[i] = 150.0f;
      for (const float scale : {1.0f, 0x1p-60f, 0x1p-140f, 0x1p25f}) {
        std::vector<float> row = weights;
        for (float& x : row) x *= scale;
        EXPECT_EQ(Measure(row, 0.0f, hidden, 8, dim).missed, 0) << dim << " " << part;
        for (float& x : row) x = -x;
        EXPECT_EQ(Measure(row, 3.0f, hidden, 8, dim).missed, 0) << dim << " " << part;
      }
    }
  }
}

TEST_P(ScanQueriesTest, ZerosAreReachedByWhatTheyAre) {
  const std::vector<float> zeros(8 * 128, 0.0f);
  const std::vector<float> some = RandomFloats(8 * 128, Values::kUnit, 3);
  EXPECT_EQ(Measure(zeros, 0.0f, zeros, 8, 128).missed, 0);
  EXPECT_EQ(Measure(zeros, -1.0f, some, 8, 128).missed, 0);
  EXPECT_EQ(Measure(some, 1.0f, zeros, 8, 128).missed, 0);
}

TEST(ScanQueriesServeTest, ServesQueriesOfUsualNumbers) {
  std::vector<float> hidden(32 * 4, 1.0f);
  EXPECT_TRUE(ScanQueries::Serve(hidden, 32, 4));
  EXPECT_TRUE(ScanQueries::Serve(hidden, 1, 4));
  for (const float odd : {std::numeric_limits<float>::infinity(), -0x1p40f,
                          std::numeric_limits<float>::quiet_NaN()}) {
    hidden.back() = odd;
    EXPECT_FALSE(ScanQueries::Serve(hidden, 32, 4)) << odd;
  }
}

}  // namespace
}  // namespace dslide
