#include "core/engine/rows/row_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/rows/row_store.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kRowChangesRows = 40;

std::vector<int> RowsOf(const ChangedRows& changed) {
  std::vector<int> rows;
  for (uint32_t row = 0; row < kRowChangesRows; ++row) {
    if (changed.Has(LocalRow(row))) rows.push_back(static_cast<int>(row));
  }
  EXPECT_EQ(changed.Count(), static_cast<int64_t>(rows.size()));
  return rows;
}

TEST(RowChangesTest, TellsWhatHasChangedSinceEachCut) {
  RowChanges changes(kRowChangesRows);
  changes.Mark(LocalRow(1));
  EXPECT_FALSE(changes.Since(10).has_value());
  changes.Cut(10);
  EXPECT_THAT(RowsOf(*changes.Since(10)), IsEmpty());
  changes.Mark(LocalRow(2));
  changes.Mark(LocalRow(3));
  changes.Cut(11);
  changes.Mark(LocalRow(3));
  changes.Mark(LocalRow(4));
  EXPECT_THAT(RowsOf(*changes.Since(10)), ElementsAre(2, 3, 4));
  EXPECT_THAT(RowsOf(*changes.Since(11)), ElementsAre(3, 4));
}

TEST(RowChangesTest, WhatWasAskedForStaysAsItWas) {
  RowChanges changes(kRowChangesRows);
  changes.Cut(1);
  changes.Mark(LocalRow(5));
  const auto changed = changes.Since(1);
  changes.Cut(2);
  changes.Mark(LocalRow(6));
  EXPECT_THAT(RowsOf(*changed), ElementsAre(5));
}

// A number that was not committed is taken again.
TEST(RowChangesTest, ANameIsThatOfItsLastCut) {
  RowChanges changes(kRowChangesRows);
  changes.Cut(1);
  changes.Mark(LocalRow(1));
  changes.Cut(2);
  changes.Mark(LocalRow(2));
  changes.Cut(2);
  changes.Mark(LocalRow(3));
  EXPECT_THAT(RowsOf(*changes.Since(2)), ElementsAre(3));
  EXPECT_THAT(RowsOf(*changes.Since(1)), ElementsAre(1, 2, 3));
}

TEST(RowChangesTest, AfterManyCutsOldOnesAreForgottenAndNewOnesRight) {
  RowChanges changes(kRowChangesRows);
  std::vector<std::set<int>> since;  // by cut, what has changed after it
  uint64_t bits = 1;
  for (uint64_t cut = 0; cut < 3 * RowChanges::kMaxCuts; ++cut) {
    changes.Cut(cut);
    since.emplace_back();
    bits = Mix64(bits);
    const auto row = static_cast<uint32_t>(bits % kRowChangesRows);
    changes.Mark(LocalRow(row));
    for (std::set<int>& changed : since) changed.insert(static_cast<int>(row));
    ASSERT_TRUE(changes.Since(cut).has_value());
    for (uint64_t earlier = cut < 300 ? 0 : cut - 300; earlier <= cut; ++earlier) {
      const auto known = changes.Since(earlier);
      if (!known.has_value()) continue;
      const std::vector<int> rows = RowsOf(*known);
      EXPECT_EQ(std::set<int>(rows.begin(), rows.end()), since[earlier]) << earlier << " " << cut;
    }
  }
}

// Whatever changes a record of a store marks its row; what only reads does not.
TEST(RowChangesTest, AStoreMarksWhatItChanges) {
  TableSpec spec;
  spec.name = "t";
  spec.role = TableRole::kEmbedding;
  spec.rows = kRowChangesRows;
  spec.dim = 8;
  spec.num_slots = 8;
  const auto slots = SlotMap::Deal(8, {1.0});
  const auto store = RowStore::Create(spec, 3, ShardRows(*slots, ShardId(0), kRowChangesRows),
                                      Parallelism{.threads = 1});
  ASSERT_TRUE(store.ok()) << store.status();
  (*store)->changes().Cut(1);
  const RowUpdate update = (*store)->BeginUpdate(Step(1), 100.0f);
  alignas(64) const float values[16] = {0.5f};
  EXPECT_TRUE((*store)->ApplyGradient(LocalRow(2), values, 0.0f, update));
  EXPECT_TRUE((*store)->ChangeWeights(LocalRow(3), RowStore::Change::kAdd, values, 0, update));
  EXPECT_TRUE((*store)->ChangeWeights(LocalRow(5), RowStore::Change::kAssign, values, 0, update));
  EXPECT_TRUE((*store)->SetRecord(LocalRow(7), (*store)->RecordSpan(LocalRow(8)), 100.0f).ok());
  EXPECT_EQ((*store)->LastStep(LocalRow(9)), Step(0));
  EXPECT_THAT(RowsOf(*(*store)->changes().Since(1)), ElementsAre(2, 3, 5, 7));
}

}  // namespace
}  // namespace dslide
