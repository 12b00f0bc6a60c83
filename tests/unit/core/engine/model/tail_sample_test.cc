#include "core/engine/model/tail_sample.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

TEST(TailSampleTest, DrawsDistinctAscendingRowsOfTheRange) {
  TailSample sample;
  std::vector<LocalRow> rows;
  for (const int64_t num_rows : {1, 2, 10, 1000}) {
    for (int64_t count = 0; count < num_rows + 2; count += 1 + num_rows / 7) {
      sample.Draw(num_rows, count, 9, rows);
      ASSERT_EQ(static_cast<int64_t>(rows.size()), std::min(count, num_rows));
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_LT(rows[i].value(), num_rows);
        if (i > 0) {
          EXPECT_LT(rows[i - 1], rows[i]);
        }
      }
    }
  }
}

TEST(TailSampleTest, IsAFunctionOfItsArguments) {
  TailSample used;
  std::vector<LocalRow> rows;
  used.Draw(1000, 900, 1, rows);
  used.Draw(500, 20, 2, rows);
  TailSample fresh;
  std::vector<LocalRow> again;
  fresh.Draw(500, 20, 2, again);
  EXPECT_EQ(rows, again) << "earlier draws leave no trace";
  fresh.Draw(500, 20, 3, again);
  EXPECT_NE(rows, again);
}

TEST(TailSampleTest, EveryRowIsEquallyLikely) {
  TailSample sample;
  std::vector<LocalRow> rows;
  constexpr int64_t kDraws = 20000;
  std::vector<int64_t> counts(10, 0);
  for (int64_t key = 0; key < kDraws; ++key) {
    sample.Draw(10, 3, key, rows);
    for (const LocalRow row : rows) ++counts[row.value()];
  }
  // Binomial with p = 0.3: six standard deviations.
  for (const int64_t count : counts) {
    EXPECT_NEAR(count, 0.3 * kDraws, 6.0 * std::sqrt(0.21 * kDraws));
  }
}

}  // namespace
}  // namespace dslide
