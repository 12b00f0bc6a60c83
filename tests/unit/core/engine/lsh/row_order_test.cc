#include "core/engine/lsh/row_order.h"

#include <algorithm>
#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

struct OrderCase {
  int64_t size, num_rows;
  bool crowded;  // all in the last few rows, so in one bin
};

std::vector<LocalRow> RandomRows(const OrderCase& param, uint64_t seed) {
  std::vector<LocalRow> rows;
  const int64_t first = param.crowded ? param.num_rows - param.size : 0;
  for (int64_t r = first; r < param.num_rows; ++r) rows.emplace_back(static_cast<uint32_t>(r));
  CounterRng rng(seed);
  for (int64_t i = 0; i < param.size; ++i) {
    std::swap(rows[i], rows[i + static_cast<int64_t>(rng.NextBelow(rows.size() - i))]);
  }
  rows.resize(param.size);
  return rows;
}

class RowOrderTest : public ::testing::TestWithParam<OrderCase> {};

TEST_P(RowOrderTest, KeepsTheSmallest) {
  const std::vector<LocalRow> all = RandomRows(GetParam(), 2);
  std::vector<LocalRow> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  for (const int64_t count :
       {int64_t{0}, int64_t{1}, GetParam().size / 3, GetParam().size - 1, GetParam().size}) {
    if (count < 0 || count > GetParam().size) continue;
    std::vector<LocalRow> rows = all;
    std::vector<LocalRow> buffer(rows.size());
    KeepSmallest(absl::MakeSpan(rows), count, GetParam().num_rows, absl::MakeSpan(buffer));
    std::sort(rows.begin(), rows.begin() + count);
    EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + count, sorted.begin())) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RowOrderTest,
                         ::testing::Values(OrderCase{0, 1, false}, OrderCase{1, 1, false},
                                           OrderCase{47, 100, false}, OrderCase{48, 48, false},
                                           OrderCase{200, 256, false}, OrderCase{200, 257, false},
                                           OrderCase{150, 70000, false},
                                           OrderCase{150, 70000, true},
                                           OrderCase{3000, 65536, false},
                                           OrderCase{1000, 17000000, true}));

}  // namespace
}  // namespace dslide
