#include "client/cpp/row_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "core/base/counter_rng.h"
#include "core/engine/model/top_k.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SlotMap Slots(std::vector<double> weights, int64_t num_slots = 16) {
  return *SlotMap::Deal(num_slots, weights);
}

std::vector<RowId> Ids(std::vector<uint32_t> values) {
  std::vector<RowId> ids;
  for (const uint32_t value : values) ids.emplace_back(value);
  return ids;
}

TEST(SliceRowsTest, EveryWantedRowIsFoundWhereItsOwnerIs) {
  const SlotMap slots = Slots({1, 2, 0.5});
  CounterRng rng(5);
  std::vector<RowId> wanted;
  for (int i = 0; i < 500; ++i) wanted.emplace_back(static_cast<uint32_t>(rng.NextBelow(200)));
  const RowSlices slices = SliceRows(slots, wanted);
  ASSERT_EQ(slices.rows.size(), 3u);
  for (size_t s = 0; s < 3; ++s) {
    for (size_t i = 0; i < slices.rows[s].size(); ++i) {
      EXPECT_EQ(slots.OwnerOf(slices.rows[s][i]).value(), static_cast<int>(s));
      if (i > 0) {
        EXPECT_LT(slices.rows[s][i - 1], slices.rows[s][i]);
      }
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(slices.rows[slices.shard_of[i]][slices.index_of[i]], wanted[i]);
  }
}

TEST(SliceRaggedTest, PartsPutTogetherAreTheWhole) {
  const SlotMap slots = Slots({1, 1});
  const std::vector<int64_t> offsets = {0, 3, 3, 5};
  const std::vector<RowId> rows = Ids({1, 4, 30, 2, 5});
  const std::vector<float> values = {1, 2, 3, 4, 5};
  const std::vector<RaggedSlice> slices = SliceRagged(slots, offsets, rows, values);
  ASSERT_EQ(slices.size(), 2u);
  for (size_t sample = 0; sample < 3; ++sample) {
    std::map<RowId, float> expected;
    std::map<RowId, float> found;
    for (int64_t i = offsets[sample]; i < offsets[sample + 1]; ++i) {
      expected[rows[static_cast<size_t>(i)]] = values[static_cast<size_t>(i)];
    }
    for (size_t s = 0; s < 2; ++s) {
      ASSERT_EQ(slices[s].offsets.size(), 4u);
      for (uint32_t i = slices[s].offsets[sample]; i < slices[s].offsets[sample + 1]; ++i) {
        EXPECT_EQ(slots.OwnerOf(slices[s].rows[i]).value(), static_cast<int>(s));
        found[slices[s].rows[i]] = slices[s].values[i];
      }
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(SliceRaggedTest, WithoutValuesThereAreNone) {
  const auto slices = SliceRagged(Slots({1, 1}), std::vector<int64_t>{0, 1}, Ids({3}), {});
  EXPECT_THAT(slices[0].values, IsEmpty());
  EXPECT_THAT(slices[1].values, IsEmpty());
}

TEST(SliceBlockTest, SumsDuplicatesInTheOrderGiven) {
  RowBlock block;
  block.rows = Ids({7, 2, 7});
  block.dim = 2;
  block.values = {1, 2, 3, 4, 10, 20};
  block.biases = {1, 2, 3};
  const auto parts = SliceBlock(Slots({1}), block, /*sum_duplicates=*/true);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT((*parts)[0].rows, ElementsAre(RowId(2), RowId(7)));
  EXPECT_THAT((*parts)[0].values, ElementsAre(3, 4, 11, 22));
  EXPECT_THAT((*parts)[0].biases, ElementsAre(2, 4));
}

TEST(SliceBlockTest, RefusesDuplicatesOfAnAssignmentAndWrongSizes) {
  RowBlock block;
  block.rows = Ids({7, 7});
  block.dim = 1;
  block.values = {1, 2};
  const absl::Status twice = SliceBlock(Slots({1}), block, false).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("row 7"));
  block.values = {1, 2, 3};
  EXPECT_EQ(SliceBlock(Slots({1}), block, true).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FirstPlacesTest, LeadEveryRowToWhereItIsWantedFirst) {
  const SlotMap slots = Slots({1, 1});
  const std::vector<RowId> wanted = Ids({9, 1, 9, 4});
  const RowSlices slices = SliceRows(slots, wanted);
  const std::vector<std::vector<uint32_t>> places = FirstPlaces(slices);
  RowBlock block;
  block.rows = wanted;
  block.dim = 2;
  block.values.assign(8, 0);
  block.biases.assign(4, 0);
  for (size_t s = 0; s < 2; ++s) {
    ASSERT_EQ(places[s].size(), slices.rows[s].size());
    for (size_t r = 0; r < places[s].size(); ++r) {
      const auto value = static_cast<float>(slices.rows[s][r].value());
      block.values[places[s][r] * 2] = value;
      block.values[places[s][r] * 2 + 1] = value + 0.5f;
      block.biases[places[s][r]] = -value;
    }
  }
  EXPECT_THAT(block.biases, ElementsAre(-9, -1, 0, -4));
  CopyRepeats(slices, places, block);
  EXPECT_THAT(block.values, ElementsAre(9, 9.5, 1, 1.5, 9, 9.5, 4, 4.5));
  EXPECT_THAT(block.biases, ElementsAre(-9, -1, -9, -4));
}

TEST(SliceExplicitTest, EachShardGetsItsRowsWithTheirNumbers) {
  const SlotMap slots = Slots({1, 1});
  const ExplicitRows<RowId> rows{.offsets = {0, 3, 3, 5},
                                 .rows = Ids({1, 4, 30, 2, 5}),
                                 .logit_offsets = {1, 2, 3, 4, 5},
                                 .weights = {6, 7, 8, 9, 0}};
  const auto parts = SliceExplicit(slots, rows);
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 2u);
  for (size_t sample = 0; sample < 3; ++sample) {
    std::map<RowId, std::pair<float, float>> expected;
    std::map<RowId, std::pair<float, float>> found;
    for (uint32_t i = rows.offsets[sample]; i < rows.offsets[sample + 1]; ++i) {
      expected[rows.rows[i]] = {rows.logit_offsets[i], rows.weights[i]};
    }
    for (size_t s = 0; s < 2; ++s) {
      const ExplicitRows<RowId>& part = (*parts)[s];
      ASSERT_EQ(part.offsets.size(), 4u);
      for (uint32_t i = part.offsets[sample]; i < part.offsets[sample + 1]; ++i) {
        EXPECT_EQ(slots.OwnerOf(part.rows[i]).value(), static_cast<int>(s));
        found[part.rows[i]] = {part.logit_offsets[i], part.weights[i]};
      }
    }
    EXPECT_EQ(found, expected);
  }
  const auto bare = SliceExplicit(slots, {.offsets = {0, 1}, .rows = Ids({3})});
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_THAT((*bare)[1].logit_offsets, IsEmpty());
  EXPECT_EQ((*bare)[0].offsets.size(), 2u) << "a shard without rows knows that some are named";
}

TEST(SliceExplicitTest, WhatDoesNotFitIsRefused) {
  const SlotMap slots = Slots({1, 1});
  const auto refusal = [&](const ExplicitRows<RowId>& rows) {
    return std::string(SliceExplicit(slots, rows).status().message());
  };
  EXPECT_THAT(refusal({.offsets = {0, 2}, .rows = Ids({7, 7})}),
              HasSubstr("row 7 comes after row 7 of the same sample"));
  EXPECT_THAT(refusal({.offsets = {0, 2}, .rows = Ids({7})}), HasSubstr("ascend from 0 to 1"));
  EXPECT_THAT(refusal({.offsets = {0, 1}, .rows = Ids({7}), .weights = {1, 2}}),
              HasSubstr("2 weights, each must be 0 or 1"));
}

TEST(MergeTopKTest, TakesTheBestOfAllShardsAndBreaksTiesById) {
  const float none = -std::numeric_limits<float>::infinity();
  TopKReply a;
  a.k = 2;
  a.scored.rows = {RowId(4), RowId(8), RowId(6), kNoRow};
  a.scored.logits = {3, 1, 2, none};
  a.scored.scored_rows = 10;
  TopKReply b = a;
  b.scored.rows = {RowId(3), RowId(1), kNoRow, kNoRow};
  b.scored.logits = {3, 0, none, none};
  b.scored.exact = false;
  const auto merged = MergeTopK(std::vector<TopKReply>{a, b}, 2, 3);
  ASSERT_TRUE(merged.ok());
  EXPECT_THAT(merged->scored.rows,
              ElementsAre(RowId(3), RowId(4), RowId(8), RowId(6), kNoRow, kNoRow));
  EXPECT_THAT(merged->scored.logits, ElementsAre(3, 3, 1, 2, none, none));
  EXPECT_EQ(merged->scored.scored_rows, 20);
  EXPECT_FALSE(merged->scored.exact);
  a.scored.rows.pop_back();
  EXPECT_FALSE(MergeTopK(std::vector<TopKReply>{a, b}, 2, 3).ok());
}

}  // namespace
}  // namespace dslide
