// When hash tables may be settled without waiting for their sorting.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/model/head_table.h"

namespace dslide {
namespace {

std::unique_ptr<HeadTable> MakeSettlingHead(int64_t rows, int64_t num_tables) {
  TableSpec spec;
  spec.name = "out";
  spec.role = TableRole::kHead;
  spec.rows = rows;
  spec.dim = 8;
  spec.num_slots = 32;
  spec.head.max_active = 20;
  spec.head.tail_rows = 64;
  spec.head.hash.codes_per_table = 5;
  spec.head.hash.num_tables = num_tables;
  spec.head.hash.rebuild_every_steps = 8;
  const auto map = SlotMap::Deal(spec.num_slots, {1.0});
  auto head = HeadTable::Create(spec, 1, ShardRows(*map, ShardId(0), rows), Parallelism{1});
  EXPECT_TRUE(head.ok()) << head.status();
  return *std::move(head);
}

// Tables of so many ids serve 4 updates after the start of their build.
std::unique_ptr<HeadTable> MakeLarge() { return MakeSettlingHead(60'000, 150); }

TEST(HeadSettlingTest, WaitsShortlyBeforeABuild) {
  const auto head = MakeLarge();
  std::vector<int64_t> waiting;
  for (int64_t step = 1; step <= 24; ++step) {
    head->AdvanceStep(Parallelism{1});
    EXPECT_FALSE(head->building()) << "no row has changed";
    if (head->SettlingWaits(16)) waiting.push_back(step);
  }
  // Half of the updates between the end of a build and the next, where those are few.
  EXPECT_THAT(waiting, ::testing::ElementsAre(6, 7, 14, 15, 22, 23));
  EXPECT_FALSE(head->SettlingWaits(0));
}

TEST(HeadSettlingTest, WaitsWhileTablesAreSortedAndNotUntilTheyServe) {
  const auto head = MakeLarge();
  head->MarkDirty({LocalRow(5)});
  for (int i = 0; i < 8; ++i) head->AdvanceStep(Parallelism{1});
  EXPECT_TRUE(head->building());
  while (head->SettlingWaits(16)) std::this_thread::yield();
  EXPECT_TRUE(head->building()) << "sorted, but not in force yet";
  for (int i = 0; i < 4; ++i) head->AdvanceStep(Parallelism{1});
  EXPECT_FALSE(head->building());
}

TEST(HeadSettlingTest, NeverWaitsForSmallTables) {
  const auto head = MakeSettlingHead(600, 6);
  for (int step = 0; step < 12; ++step) {
    head->MarkDirty({LocalRow(5)});
    head->AdvanceStep(Parallelism{1});
    EXPECT_FALSE(head->building() || head->SettlingWaits(16)) << step;
  }
}

}  // namespace
}  // namespace dslide
