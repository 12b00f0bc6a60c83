#include "core/engine/rows/record_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr int64_t kStoreRows = 600;
constexpr int64_t kPlenty = int64_t{1} << 30;

TableSpec RecordSpecOf(TableRole role, int64_t rows = kStoreRows) {
  TableSpec spec;
  spec.name = "records";
  spec.role = role;
  spec.rows = rows;
  spec.num_slots = 16;
  return spec;
}

RecordStore MakeRecords(TableRole role, int32_t shard = 0) {
  const TableSpec spec = RecordSpecOf(role);
  const SlotMap map = *SlotMap::Deal(spec.num_slots, {1.0, 1.0});
  return RecordStore(spec, RecordStore::RowsOf(spec, map, ShardId(shard)));
}

// What a store is compared with: the present rows by local id.
using SlowRecords = std::map<uint32_t, std::string>;

uint64_t SlowDigest(const RecordStore& store, const SlowRecords& records) {
  uint64_t digest = 0;
  for (const auto& [row, record] : records) {
    digest += RecordDigest(store.rows().ToGlobal(LocalRow(row)), record);
  }
  return digest;
}

void ExpectRecords(const RecordStore& store, const SlowRecords& records) {
  int64_t bytes = RecordStore::BytesFor(store.num_rows());
  for (uint32_t row = 0; row < store.num_rows(); ++row) {
    const auto found = records.find(row);
    const std::string expected = found == records.end() ? "" : found->second;
    const absl::Span<const char> record = store.Record(LocalRow(row));
    EXPECT_EQ(std::string(record.begin(), record.end()), expected) << row;
    if (!expected.empty()) bytes += RecordStore::BytesOf(static_cast<int64_t>(expected.size()));
  }
  EXPECT_EQ(store.present(), static_cast<int64_t>(records.size()));
  EXPECT_EQ(store.memory_bytes(), bytes);
  EXPECT_EQ(store.Digest({.threads = 2}), SlowDigest(store, records));
}

std::string RandomRecord(CounterRng& rng) {
  std::string record(1 + rng.NextBelow(200), '\0');
  for (char& byte : record) byte = static_cast<char>(rng.NextBelow(4));
  return record;
}

// Puts and erases; what has been touched goes to `touched`.
void ChangeSome(RecordStore& store, SlowRecords& records, CounterRng& rng, int changes,
                std::map<uint32_t, bool>* touched = nullptr) {
  for (int i = 0; i < changes; ++i) {
    const auto row = static_cast<uint32_t>(rng.NextBelow(store.num_rows()));
    const bool erase = rng.NextBelow(4) == 0;
    const std::string before = records.contains(row) ? records[row] : "";
    if (erase) {
      store.Erase(LocalRow(row));
      records.erase(row);
    } else {
      const std::string record = RandomRecord(rng);
      store.Put(LocalRow(row), record);
      records[row] = record;
    }
    const std::string after = records.contains(row) ? records[row] : "";
    if (touched != nullptr && after != before) (*touched)[row] = true;
  }
}

TEST(RecordStoreTest, HoldsWhatWasPutLast) {
  for (const TableRole role : {TableRole::kMemory, TableRole::kLinear}) {
    RecordStore store = MakeRecords(role);
    SlowRecords records;
    ExpectRecords(store, records);
    CounterRng rng(static_cast<uint64_t>(role));
    for (int round = 0; round < 20; ++round) {
      ChangeSome(store, records, rng, 100);
      ExpectRecords(store, records);
    }
  }
}

TEST(RecordStoreTest, AReplicatedTableHasEveryRowUnderItsOwnNumber) {
  for (const TableRole role : {TableRole::kMemory, TableRole::kLabelTrees}) {
    const RecordStore store = MakeRecords(role, /*shard=*/1);
    ASSERT_EQ(store.num_rows(), kStoreRows);
    for (uint32_t row = 0; row < kStoreRows; ++row) {
      EXPECT_TRUE(store.rows().Holds(RowId(row)));
      EXPECT_EQ(store.rows().ToLocal(RowId(row)), LocalRow(row));
      EXPECT_EQ(store.rows().ToGlobal(LocalRow(row)), RowId(row));
    }
    EXPECT_FALSE(store.rows().Holds(RowId(kStoreRows)));
  }
  const RecordStore first = MakeRecords(TableRole::kLinear, 0);
  const RecordStore second = MakeRecords(TableRole::kLinear, 1);
  EXPECT_EQ(first.num_rows() + second.num_rows(), kStoreRows);
}

// Of rows that are the same wherever they lie.
TEST(RecordStoreTest, DigestsOfTheShardsAddUpToThatOfTheTable) {
  RecordStore whole = MakeRecords(TableRole::kMemory);
  RecordStore parts[] = {MakeRecords(TableRole::kLinear, 0), MakeRecords(TableRole::kLinear, 1)};
  CounterRng rng(3);
  for (uint32_t row = 0; row < kStoreRows; row += 3) {
    const std::string record = RandomRecord(rng);
    whole.Put(whole.rows().ToLocal(RowId(row)), record);
    RecordStore& part = parts[parts[0].rows().Holds(RowId(row)) ? 0 : 1];
    part.Put(part.rows().ToLocal(RowId(row)), record);
  }
  EXPECT_EQ(whole.Digest({.threads = 1}),
            parts[0].Digest({.threads = 1}) + parts[1].Digest({.threads = 1}));
}

// Zeros at the end, and nothing else, are part of a record.
TEST(RecordStoreTest, RecordsOfZerosHaveTheDigestsOfTheirLengths) {
  RecordStore store = MakeRecords(TableRole::kMemory);
  std::map<uint64_t, size_t> seen = {{0, 0}};
  for (size_t size = 1; size <= 130; ++size) {
    store.Put(LocalRow(7), std::string(size, '\0'));
    const auto [found, is_new] = seen.emplace(store.Digest({.threads = 1}), size);
    EXPECT_TRUE(is_new) << size << " and " << found->second;
  }
}

TEST(RecordStoreTest, ARecordCostsAtMostFortyBytesMore) {
  for (int64_t size = 1; size < 300; ++size) {
    EXPECT_LE(RecordStore::BytesFor(1) + RecordStore::BytesOf(size), size + 40);
    EXPECT_GT(RecordStore::BytesOf(size), size);
  }
}

TEST(RecordStoreTest, EqualBytesAreNoChange) {
  RecordStore store = MakeRecords(TableRole::kMemory);
  store.Put(LocalRow(3), std::string("abc"));
  store.changes().Cut(1);
  const char* const where = store.Record(LocalRow(3)).data();
  store.Put(LocalRow(3), std::string("abc"));
  store.Erase(LocalRow(4));
  EXPECT_EQ(store.Record(LocalRow(3)).data(), where);
  EXPECT_EQ(store.changes().Since(1)->Count(), 0);
  store.Put(LocalRow(3), std::string("abd"));
  EXPECT_EQ(store.changes().Since(1)->Count(), 1);
}

TEST(RecordStoreTest, KnowsWhichRowsHaveChangedSinceACut) {
  RecordStore store = MakeRecords(TableRole::kLinear);
  SlowRecords records;
  CounterRng rng(11);
  ChangeSome(store, records, rng, 400);
  store.changes().Cut(1);
  std::map<uint32_t, bool> touched;
  ChangeSome(store, records, rng, 90, &touched);
  const auto changed = store.changes().Since(1);
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(changed->Count(), static_cast<int64_t>(touched.size()));
  for (const auto& [row, unused] : touched) EXPECT_TRUE(changed->Has(LocalRow(row))) << row;
}

SlowRecords TakeRecords(const RecordStore& store, RowSnapshot& snapshot) {
  SlowRecords taken;
  for (uint32_t row = 0; row < store.num_rows(); ++row) {
    std::string record;
    snapshot.Take(LocalRow(row), record);
    if (!record.empty()) taken[row] = record;
  }
  return taken;
}

TEST(RecordStoreTest, ASnapshotShowsTheRecordsAsTheyWere) {
  RecordStore store = MakeRecords(TableRole::kMemory);
  SlowRecords records;
  CounterRng rng(5);
  ChangeSome(store, records, rng, 500);
  for (int round = 0; round < 5; ++round) {
    const SlowRecords before = records;
    const auto snapshot = store.StartSnapshot(kPlenty);
    ChangeSome(store, records, rng, 700);
    EXPECT_GT(snapshot->copied_bytes(), 0);
    EXPECT_EQ(TakeRecords(store, *snapshot), before);
    EXPECT_EQ(snapshot->copied_bytes(), 0);
    store.EndSnapshot();
    ExpectRecords(store, records);
  }
}

// Records are replaced, and so freed, beside a writer, with little room for copies.
TEST(RecordStoreTest, ASnapshotShowsTheRecordsAsTheyWereBesideThreadsThatChangeThem) {
  RecordStore store = MakeRecords(TableRole::kMemory);
  SlowRecords records;
  CounterRng rng(6);
  ChangeSome(store, records, rng, 800);
  for (uint64_t round = 0; round < 20; ++round) {
    SlowRecords before;
    for (uint32_t row = 0; row < kStoreRows; ++row) {
      const absl::Span<const char> record = store.Record(LocalRow(row));
      if (!record.empty()) before[row] = std::string(record.begin(), record.end());
    }
    const auto snapshot = store.StartSnapshot(/*max_copied_bytes=*/2000);
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&store, thread, round] {
        CounterRng own(100 * round + thread);
        for (uint32_t i = thread; i < 3 * kStoreRows; i += 2) {
          const LocalRow row((i * 7) % kStoreRows - (i * 7) % kStoreRows % 2 + thread);
          store.Put(row, own.NextBelow(4) == 0 ? std::string() : RandomRecord(own));
        }
      });
    }
    EXPECT_EQ(TakeRecords(store, *snapshot), before);
    for (std::thread& thread : threads) thread.join();
    store.EndSnapshot();
  }
}

// Who writes it down may still be at work, and must not read what is freed meanwhile.
TEST(RecordStoreTest, AnAbandonedSnapshotNeitherHoldsUpChangesNorReadsWhatIsGone) {
  RecordStore store = MakeRecords(TableRole::kMemory);
  SlowRecords records;
  CounterRng rng(8);
  ChangeSome(store, records, rng, 800);
  const auto snapshot = store.StartSnapshot(/*max_copied_bytes=*/0);
  std::thread writer([&] { TakeRecords(store, *snapshot); });
  std::thread quitter([&] { snapshot->Abandon(); });
  ChangeSome(store, records, rng, 3000);
  writer.join();
  quitter.join();
  store.EndSnapshot();
  ExpectRecords(store, records);
}

}  // namespace
}  // namespace dslide
