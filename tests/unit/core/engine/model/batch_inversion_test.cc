#include "core/engine/model/batch_inversion.h"

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/counter_rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BatchInversionTest, NoPairsGiveNoRows) {
  BatchInversion inversion;
  inversion.ResizeKeys(0);
  inversion.Invert(100, {.threads = 2});
  EXPECT_THAT(inversion.rows(), IsEmpty());
  EXPECT_THAT(inversion.offsets(), ElementsAre(0));
  EXPECT_THAT(inversion.tags(), IsEmpty());
}

TEST(BatchInversionTest, GroupsByRowAndKeepsTheOrderOfEachRow) {
  for (const int64_t num_rows : {int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{1} << 31}) {
    BatchInversion inversion;
    for (const int64_t pairs : {3000, 1, 500, 50'000}) {  // memory is reused
      CounterRng rng(static_cast<uint64_t>(num_rows + pairs));
      const absl::Span<uint64_t> keys = inversion.ResizeKeys(pairs);
      std::map<uint32_t, std::vector<uint32_t>> expected;
      for (int64_t i = 0; i < pairs; ++i) {
        // Squared, so that some rows have many pairs, and the largest row occurs.
        const uint64_t draw = rng.NextBelow(num_rows);
        const uint32_t row = static_cast<uint32_t>(i == 0 ? num_rows - 1 : draw % (1 + draw / 7));
        const uint32_t tag = static_cast<uint32_t>(rng.NextBits());
        keys[i] = BatchInversion::Key(LocalRow(row), tag);
        expected[row].push_back(tag);
      }
      inversion.Invert(num_rows, {.threads = static_cast<int>(pairs % 7 + 1)});
      ASSERT_EQ(inversion.rows().size(), expected.size());
      ASSERT_EQ(inversion.offsets().size(), expected.size() + 1);
      EXPECT_EQ(inversion.offsets().back(), pairs);
      size_t i = 0;
      for (const auto& [row, tags] : expected) {
        EXPECT_EQ(inversion.rows()[i].value(), row);
        const auto found = inversion.tags().subspan(
            inversion.offsets()[i], inversion.offsets()[i + 1] - inversion.offsets()[i]);
        EXPECT_EQ(std::vector<uint32_t>(found.begin(), found.end()), tags);
        ++i;
      }
    }
  }
}

}  // namespace
}  // namespace dslide
