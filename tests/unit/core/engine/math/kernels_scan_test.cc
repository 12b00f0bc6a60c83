#include "core/engine/math/kernels_scan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/engine/rows/aligned_floats.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class ScanKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(ScanKernelTest);

// Rows as whole numbers.
struct Rounded {
  std::vector<ScanLine<int8_t>> lines;
  std::vector<ScannedRow> scanned;

  const int8_t* whole() const { return lines.data()->whole; }
};

Rounded Round(const std::vector<std::vector<float>>& rows, const ScanShape& shape) {
  Rounded rounded;
  std::vector<const float*> weights;
  for (const std::vector<float>& row : rows) weights.push_back(row.data());
  rounded.lines.resize(rows.size() * static_cast<size_t>(shape.segments()));
  rounded.scanned.resize(rows.size());
  ScanRows(weights.data(), static_cast<int64_t>(rows.size()), shape, rounded.lines.data()->whole,
           rounded.scanned.data());
  return rounded;
}

// The longest half of a segment of whole numbers.
double LongestHalf(const int8_t* whole, int64_t segments) {
  double longest = 0;
  for (int64_t segment = 0; segment < segments; ++segment) {
    double squares[2] = {0, 0};
    for (int64_t i = 0; i < kScanSegment; ++i) {
      const double number = whole[segment * kScanSegment + i];
      squares[i % 4 / 2] += number * number;
    }
    longest = std::max({longest, std::sqrt(squares[0]), std::sqrt(squares[1])});
  }
  return longest;
}

TEST_P(ScanKernelTest, RowsAreRoundedToNearestAtEveryLength) {
  for (const int64_t columns : Lengths()) {
    if (columns == 0) continue;
    for (const Values values : AllValues()) {
      for (const bool is_signed : {false, true}) {
        GuardedArray<float> weights(RandomFloats(columns, values, 1));
        const ScanShape shape{columns, is_signed};
        const Rounded row = Round({weights.ToVector()}, shape);
        // At the end of a page: nothing beyond a row is read.
        const float* const guarded = weights.data();
        Rounded again = row;
        ScanRows(&guarded, 1, shape, again.lines.data()->whole, again.scanned.data());
        const ScannedRow& scanned = row.scanned[0];
        EXPECT_EQ(again.scanned[0].unit, scanned.unit);
        double square = 0;
        const int64_t half = shape.segments() * kScanSegment / (is_signed ? 2 : 1);
        for (int64_t i = 0; i < half; ++i) {
          const double weight = i < columns ? weights[i] : 0;
          ASSERT_EQ(again.whole()[i], row.whole()[i]);
          ASSERT_NEAR(weight / scanned.unit, row.whole()[i], 0.5001) << i << " of " << columns;
          if (is_signed) {
            ASSERT_EQ(row.whole()[half + i], -row.whole()[i]);
          }
          square += weight * weight;
        }
        EXPECT_NEAR(scanned.length, std::sqrt(square), 1e-5 * std::sqrt(square) + 0x1p-59);
        EXPECT_GE(scanned.length * (1 + 1e-5), std::sqrt(square));
        EXPECT_LE(LongestHalf(row.whole(), shape.segments()), kRowLength);
        if (values != Values::kSubnormal) {
          EXPECT_GT(LongestHalf(row.whole(), shape.segments()), kRowLength / 3);
        }
      }
    }
  }
}

TEST_P(ScanKernelTest, OneLargeNumberLeavesNoRoomForOthers) {
  std::vector<float> weights(128, 1e-3f);
  weights[77] = -1e6f;
  const Rounded row = Round({weights}, {128, false});
  EXPECT_LE(LongestHalf(row.whole(), 2), kRowLength);
  EXPECT_LT(row.whole()[77], -120);
  EXPECT_EQ(row.whole()[76], 0);
}

TEST_P(ScanKernelTest, RowsThatNoNumbersStandForMustBeScored) {
  for (const float odd : {std::numeric_limits<float>::infinity(), -0x1p40f, 0x1p127f,
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> weights(100, 1.0f);
    weights[99] = odd;
    Rounded row = Round({weights}, {100, false});
    EXPECT_EQ(row.scanned[0].length, std::numeric_limits<float>::infinity());
  }
}

// Queries as whole numbers with a bound of their own.
struct Block {
  explicit Block(int64_t segments, int64_t queries) : whole(segments * kScanSegment / 4) {
    lanes.Resize(4 * kScanQueries);
    block = {.whole = reinterpret_cast<const uint8_t*>(whole.data()),
             .segments = segments,
             .queries = queries,
             .units = lanes.data(),
             .spreads = lanes.data() + kScanQueries,
             .slopes = lanes.data() + 2 * kScanQueries,
             .wanted = lanes.data() + 3 * kScanQueries};
  }

  struct alignas(64) Four {
    uint8_t of[kScanQueries][4] = {};
  };
  std::vector<Four> whole;
  AlignedFloats lanes;
  ScanBlock block = {};
};

TEST_P(ScanKernelTest, ReachesWhatTheProductSays) {
  for (const int64_t segments : {1, 2, 3, 8}) {
    for (const int64_t queries : {1, 2, 4, 5, 8, 9, 12, 15, 16}) {
      constexpr int64_t kRows = 11;
      const int64_t columns = segments * kScanSegment;
      std::vector<std::vector<float>> rows;
      for (int64_t r = 0; r < kRows; ++r) {
        rows.push_back(RandomFloats(columns, Values::kUnit, static_cast<uint64_t>(r)));
      }
      Rounded rounded = Round(rows, {columns, false});
      Block block(segments, queries);
      CounterRng rng(static_cast<uint64_t>(queries));
      // As long as a half may be: 32 numbers of at most 45.
      for (Block::Four& four : block.whole) {
        for (auto& query : four.of) {
          for (uint8_t& number : query) number = static_cast<uint8_t>(rng.NextBelow(46));
        }
      }
      float* const lanes = block.lanes.data();
      for (int64_t q = 0; q < kScanQueries; ++q) {
        lanes[q] = 0.5f;
        lanes[kScanQueries + q] = 2.0f;
        lanes[2 * kScanQueries + q] = 0.25f;
        lanes[3 * kScanQueries + q] = static_cast<float>(q) - 8.0f;
      }
      for (ScannedRow& row : rounded.scanned) row.bias = 1.0f;
      std::vector<uint32_t> reached(kRows, ~uint32_t{0});
      ReachedQueries(rounded.whole(), rounded.scanned.data(), kRows, block.block, reached.data());
      for (int64_t r = 0; r < kRows; ++r) {
        EXPECT_EQ(reached[r] >> queries, 0u) << "lanes that are not in use";
        for (int64_t q = 0; q < queries; ++q) {
          int64_t product = 0;
          for (int64_t i = 0; i < columns; ++i) {
            product += int64_t{rounded.whole()[r * columns + i]} * block.whole[i / 4].of[q][i % 4];
          }
          const ScannedRow& row = rounded.scanned[r];
          const double most = row.unit * (0.5 * static_cast<double>(product) + 2.0) +
                              (0.25 * row.length + row.bias);
          const double wanted = lanes[3 * kScanQueries + q];
          if (std::abs(most - wanted) < 1e-4) continue;  // less than float arithmetic tells
          ASSERT_EQ((reached[r] >> q & 1) != 0, most >= wanted)
              << "row " << r << " query " << q << " of " << queries << ": " << most;
        }
      }
    }
  }
}

TEST_P(ScanKernelTest, SumsHoldTheLongestHalves) {
  // All of a half's length in two columns that are added first, with either sign.
  for (const float sign : {1.0f, -1.0f}) {
    std::vector<float> weights(64, 0.0f);
    weights[4] = weights[5] = sign;
    Rounded rounded = Round({weights}, {64, false});
    rounded.scanned[0].bias = 0.0f;
    Block block(1, 1);
    block.whole[1].of[0][0] = block.whole[1].of[0][1] = 182;  // a length of 257.4
    const int whole = rounded.whole()[4];
    EXPECT_GE(std::abs(whole), 86);
    float* const lanes = block.lanes.data();
    const float product = rounded.scanned[0].unit * static_cast<float>(2 * 182 * whole);
    lanes[0] = 1.0f;
    for (const float wanted : {product * 0.999f, product * 1.001f}) {
      lanes[3 * kScanQueries] = wanted;
      uint32_t reached = 0;
      ReachedQueries(rounded.whole(), rounded.scanned.data(), 1, block.block, &reached);
      EXPECT_EQ(reached, product >= wanted ? 1u : 0u);
    }
  }
}

TEST_P(ScanKernelTest, MultipliesOneQueryWithManyRows) {
  for (const int64_t columns : {64, 128, 192, 4096}) {
    constexpr int64_t kRows = 5;
    const int limit = ProductLimit(columns);
    std::vector<ScanLine<int8_t>> whole(kRows * columns / 64);
    std::vector<ScanLine<int16_t>> query(columns / 32);
    CounterRng rng(static_cast<uint64_t>(columns));
    int8_t* const rows = whole.data()->whole;
    for (int64_t i = 0; i < kRows * columns; ++i) {
      rows[i] =
          static_cast<int8_t>(static_cast<int>(rng.NextBelow(2 * kRowLength + 1)) - kRowLength);
    }
    // The first row and the query are as large as they may be.
    for (int64_t i = 0; i < columns; ++i) {
      rows[i] = kRowLength;
      query.data()->whole[i] =
          static_cast<int16_t>(i % 64 < 60 ? limit : -limit + static_cast<int>(i));
    }
    std::vector<int32_t> products(kRows);
    WholeProducts(rows, kRows, columns, query.data()->whole, products.data());
    for (int64_t r = 0; r < kRows; ++r) {
      int64_t expected = 0;
      for (int64_t i = 0; i < columns; ++i) {
        expected += int64_t{rows[r * columns + i]} * query.data()->whole[i];
      }
      EXPECT_EQ(products[r], expected) << "row " << r << " of " << columns << " columns";
    }
  }
}

TEST_P(ScanKernelTest, AnInfiniteLengthReachesEveryQuery) {
  Rounded rounded = Round({std::vector<float>(64, 1e30f)}, {64, false});
  rounded.scanned[0].bias = 0.0f;
  Block block(1, 3);
  for (int64_t q = 0; q < 3; ++q) {
    block.lanes.data()[2 * kScanQueries + q] = 1e-20f;
    block.lanes.data()[3 * kScanQueries + q] = std::numeric_limits<float>::max();
  }
  uint32_t reached = 0;
  ReachedQueries(rounded.whole(), rounded.scanned.data(), 1, block.block, &reached);
  EXPECT_EQ(reached, 7u);
}

}  // namespace
}  // namespace dslide
