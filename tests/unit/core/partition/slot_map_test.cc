#include "core/partition/slot_map.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

SlotMap MustDeal(int64_t num_slots, std::vector<double> weights) {
  auto map = SlotMap::Deal(num_slots, weights);
  EXPECT_TRUE(map.ok()) << map.status();
  return *map;
}

std::vector<int64_t> CountByShard(const SlotMap& map, int64_t first_slots) {
  std::vector<int64_t> counts(map.num_shards(), 0);
  for (int64_t slot = 0; slot < first_slots; ++slot) ++counts[map.owners()[slot].value()];
  return counts;
}

TEST(SlotMapDealTest, EqualWeightsGoRoundAndRoundFromTheSmallestShard) {
  for (double weight : {1.0, 0.1, 3e7}) {
    const SlotMap map = MustDeal(10, {weight, weight, weight});
    for (int64_t slot = 0; slot < 10; ++slot) {
      EXPECT_EQ(map.owners()[slot].value(), slot % 3) << "slot " << slot << " weight " << weight;
    }
  }
}

TEST(SlotMapDealTest, EveryPrefixIsWithinOneSlotOfTheShares) {
  const std::vector<double> weights = {5.0, 1.0, 2.5, 0.5};
  const SlotMap map = MustDeal(1024, weights);
  for (int64_t first = 1; first <= 1024; ++first) {
    const std::vector<int64_t> counts = CountByShard(map, first);
    for (size_t shard = 0; shard < weights.size(); ++shard) {
      const double share = weights[shard] / 9.0 * static_cast<double>(first);
      // One shard's count passes its share by less than 1; the rest may wait for several others.
      EXPECT_LT(static_cast<double>(counts[shard]) - share, 1.0);
      EXPECT_GT(static_cast<double>(counts[shard]) - share, -2.0);
    }
  }
  EXPECT_EQ(CountByShard(map, 1024)[3], 57);  // 1024 * 0.5 / 9 = 56.9
}

TEST(SlotMapDealTest, IsPure) {
  EXPECT_EQ(MustDeal(1024, {1, 2, 3}), MustDeal(1024, {1, 2, 3}));
  EXPECT_FALSE(MustDeal(1024, {1, 2, 3}) == MustDeal(1024, {3, 2, 1}));
}

TEST(SlotMapDealTest, RefusesWhatItCannotDeal) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto error = [](int64_t slots, std::vector<double> weights) {
    const auto map = SlotMap::Deal(slots, weights);
    EXPECT_EQ(map.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(map.status().message());
  };
  EXPECT_THAT(error(0, {1}), HasSubstr("num_slots is 0, must be in [1, 65536]"));
  EXPECT_THAT(error(65537, {1}), HasSubstr("num_slots is 65537"));
  EXPECT_THAT(error(8, {}), HasSubstr("number of shards is 0"));
  EXPECT_THAT(error(2000, std::vector<double>(1025, 1.0)), HasSubstr("number of shards is 1025"));
  EXPECT_THAT(error(2, {1, 1, 1}), HasSubstr("3 shards are more than the table's 2 slots"));
  EXPECT_THAT(error(8, {1, 0}), HasSubstr("capacity weight of shard 1 is 0"));
  EXPECT_THAT(error(8, {-1}), HasSubstr("capacity weight of shard 0 is -1"));
  EXPECT_THAT(error(8, {1, inf}), HasSubstr("inf"));
  EXPECT_THAT(error(8, {1, nan}), HasSubstr("nan"));
}

TEST(SlotMapFromOwnersTest, TakesAMapAsDealt) {
  const SlotMap dealt = MustDeal(64, {1, 2});
  const auto copy =
      SlotMap::FromOwners(std::vector<ShardId>(dealt.owners().begin(), dealt.owners().end()), 2);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(*copy, dealt);
}

TEST(SlotMapFromOwnersTest, RefusesOwnersOutsideTheShards) {
  const auto high = SlotMap::FromOwners({ShardId(0), ShardId(2)}, 2);
  EXPECT_THAT(std::string(high.status().message()), HasSubstr("slot 1 is owned by shard 2"));
  const auto low = SlotMap::FromOwners({ShardId(-1)}, 1);
  EXPECT_THAT(std::string(low.status().message()), HasSubstr("slot 0 is owned by shard -1"));
  EXPECT_FALSE(SlotMap::FromOwners({}, 1).ok());
}

struct SlotMapShape {
  int64_t rows;
  int64_t slots;
  std::vector<double> weights;
};

class ShardRowsTest : public testing::TestWithParam<SlotMapShape> {};

TEST_P(ShardRowsTest, ShardsTogetherHoldEveryRowOnceAndTranslateBothWays) {
  const SlotMap map = MustDeal(GetParam().slots, GetParam().weights);
  std::set<uint32_t> seen;
  for (int64_t shard = 0; shard < map.num_shards(); ++shard) {
    const ShardRows rows(map, ShardId(static_cast<int32_t>(shard)), GetParam().rows);
    EXPECT_EQ(rows.table_rows(), GetParam().rows);
    SlotId last_slot(0);
    for (int64_t i = 0; i < rows.num_rows(); ++i) {
      const LocalRow local(static_cast<uint32_t>(i));
      const RowId global = rows.ToGlobal(local);
      ASSERT_LT(global.value(), GetParam().rows);
      EXPECT_EQ(map.OwnerOf(global).value(), shard);
      EXPECT_TRUE(rows.Holds(global));
      EXPECT_EQ(rows.ToLocal(global), local);
      EXPECT_TRUE(seen.insert(global.value()).second) << "row " << global << " held twice";
      EXPECT_LE(last_slot, map.SlotOf(global)) << "slots are contiguous and ascending";
      last_slot = map.SlotOf(global);
    }
    for (int64_t row = 0; row < GetParam().rows; ++row) {
      const RowId global(static_cast<uint32_t>(row));
      EXPECT_EQ(rows.Holds(global), map.OwnerOf(global).value() == shard);
    }
    EXPECT_FALSE(rows.Holds(RowId(static_cast<uint32_t>(GetParam().rows))));
    EXPECT_FALSE(rows.Holds(RowId(0xffffffffu)));
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), GetParam().rows);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ShardRowsTest,
                         testing::Values(SlotMapShape{0, 4, {1}}, SlotMapShape{1, 4, {1, 1}},
                                         SlotMapShape{3, 4, {1, 1}}, SlotMapShape{4, 4, {1, 1}},
                                         SlotMapShape{5, 4, {3, 1}}, SlotMapShape{1000, 1, {1}},
                                         SlotMapShape{1000, 7, {1, 2, 4}},
                                         SlotMapShape{10000, 1024, {1}},
                                         SlotMapShape{10000, 1024, {1, 5, 0.01}},
                                         SlotMapShape{500, 1024, {2, 1}}));

TEST(ShardRowsTest, HoldsTheLargestTable) {
  const ShardRows rows(MustDeal(1024, {1, 1}), ShardId(1), kMaxTableRows);
  EXPECT_EQ(rows.num_rows(), kMaxTableRows / 2);
  const RowId last(static_cast<uint32_t>(kMaxTableRows - 1));
  ASSERT_TRUE(rows.Holds(last));
  EXPECT_EQ(rows.ToLocal(last).value(), kMaxTableRows / 2 - 1);
  EXPECT_EQ(rows.ToGlobal(rows.ToLocal(last)), last);
}

}  // namespace
}  // namespace dslide
