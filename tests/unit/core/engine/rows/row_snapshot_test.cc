#include "core/engine/rows/row_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "core/engine/rows/row_store.h"

namespace dslide {
namespace {

constexpr int64_t kSnapshotRows = 2000;
constexpr int64_t kRowSnapshotDim = 24;

std::unique_ptr<RowStore> MakeSnapshotStore() {
  TableSpec spec;
  spec.name = "t";
  spec.role = TableRole::kEmbedding;
  spec.rows = kSnapshotRows;
  spec.dim = kRowSnapshotDim;
  spec.num_slots = 16;
  const auto slots = SlotMap::Deal(16, {1.0});
  auto store =
      RowStore::Create(spec, /*model_seed=*/3, ShardRows(*slots, ShardId(0), kSnapshotRows),
                       Parallelism{.threads = 1});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

void Change(RowStore& store, int64_t row, float value, int64_t step) {
  const std::vector<float> values(kRowSnapshotDim, value);
  const RowUpdate update = store.BeginUpdate(Step(step), 100.0f);
  ASSERT_TRUE(store.ChangeWeights(LocalRow(static_cast<uint32_t>(row)), RowStore::Change::kAdd,
                                  values.data(), 0.0f, update));
}

uint64_t TakeAll(const RowStore& store, RowSnapshot& snapshot) {
  std::string record;
  uint64_t digest = 0;
  for (int64_t i = 0; i < kSnapshotRows; ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    snapshot.Take(row, record);
    digest += store.DigestOf(row, record);
  }
  return digest;
}

TEST(RowSnapshotTest, ShowsTheRowsAsTheyWere) {
  const auto store = MakeSnapshotStore();
  const uint64_t before = store->Digest({.threads = 1});
  const auto snapshot = store->StartSnapshot(int64_t{1} << 30);
  for (int64_t row = 0; row < kSnapshotRows; row += 3) Change(*store, row, 0.5f, 1);
  for (int64_t row = 0; row < kSnapshotRows; row += 6) Change(*store, row, 0.25f, 2);
  EXPECT_EQ(snapshot->copied_bytes(), (kSnapshotRows + 2) / 3 * store->record_bytes());
  EXPECT_NE(store->Digest({.threads = 1}), before);
  EXPECT_EQ(TakeAll(*store, *snapshot), before);
  EXPECT_EQ(snapshot->copied_bytes(), 0);
}

TEST(RowSnapshotTest, RowsThatWereTakenAreNotCopiedAnyMore) {
  const auto store = MakeSnapshotStore();
  const auto snapshot = store->StartSnapshot(int64_t{1} << 30);
  TakeAll(*store, *snapshot);
  Change(*store, 5, 1.0f, 1);
  EXPECT_EQ(snapshot->copied_bytes(), 0);
}

TEST(RowSnapshotTest, IsOverWhenTheStoreIsTold) {
  const auto store = MakeSnapshotStore();
  const auto snapshot = store->StartSnapshot(int64_t{1} << 30);
  store->EndSnapshot();
  Change(*store, 5, 1.0f, 1);
  EXPECT_EQ(snapshot->copied_bytes(), 0);
}

TEST(RowSnapshotTest, AbandonedNobodyWaitsForRoom) {
  const auto store = MakeSnapshotStore();
  const auto snapshot = store->StartSnapshot(/*max_copied_bytes=*/0);
  Change(*store, 1, 1.0f, 1);  // the first finds room
  snapshot->Abandon();
  Change(*store, 2, 1.0f, 2);  // would wait for ever
  EXPECT_EQ(snapshot->copied_bytes(), 0);
}

// Changes of all rows, several times over, beside a writer, and little room for copies.
TEST(RowSnapshotTest, ShowsTheRowsAsTheyWereBesideThreadsThatChangeThem) {
  const auto store = MakeSnapshotStore();
  for (int round = 0; round < 20; ++round) {
    const uint64_t before = store->Digest({.threads = 1});
    const auto snapshot = store->StartSnapshot(64 * store->record_bytes());
    std::vector<std::thread> threads;
    for (int64_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&store, thread, round] {
        for (int64_t step = 1; step <= 3; ++step) {
          for (int64_t i = thread; i < kSnapshotRows; i += 2) {
            Change(*store, (i * 7) % kSnapshotRows, 0.125f, 3 * round + step);
          }
        }
      });
    }
    EXPECT_EQ(TakeAll(*store, *snapshot), before);
    for (std::thread& thread : threads) thread.join();
    store->EndSnapshot();
  }
}

TEST(RowSnapshotTest, ReadsWithoutACopyWhatTakeWouldGive) {
  const auto store = MakeSnapshotStore();
  const uint64_t before = store->Digest({.threads = 1});
  const auto snapshot = store->StartSnapshot(int64_t{1} << 30);
  for (int64_t row = 0; row < kSnapshotRows; row += 3) Change(*store, row, 0.5f, 1);
  uint64_t digest = 0;
  for (int64_t i = 0; i < kSnapshotRows; ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    snapshot->Read(row,
                   [&](absl::Span<const char> record) { digest += store->DigestOf(row, record); });
  }
  EXPECT_EQ(digest, before);
  EXPECT_EQ(snapshot->copied_bytes(), 0);
}

// Its writer may still be at work when a process stops.
TEST(RowSnapshotTest, ToTakeFromAnAbandonedOneGivesRecordsThatCountForNothing) {
  const auto store = MakeSnapshotStore();
  const auto snapshot = store->StartSnapshot(int64_t{1} << 30);
  for (int64_t row = 0; row < kSnapshotRows; row += 3) Change(*store, row, 0.5f, 1);
  EXPECT_FALSE(snapshot->abandoned());
  snapshot->Abandon();
  EXPECT_TRUE(snapshot->abandoned());
  TakeAll(*store, *snapshot);
  EXPECT_EQ(snapshot->copied_bytes(), 0);
}

}  // namespace
}  // namespace dslide
