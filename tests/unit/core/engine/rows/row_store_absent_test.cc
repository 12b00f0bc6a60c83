// Rows of a head that are not there.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/rows/aligned_floats.h"
#include "core/engine/rows/row_store.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

constexpr float kAbsentTestBound = 1e4f;

std::unique_ptr<RowStore> HeadOf200Rows() {
  TableSpec spec;
  spec.name = "table";
  spec.role = TableRole::kHead;
  spec.rows = 200;
  spec.dim = 24;
  spec.num_slots = 16;
  spec.precision = RowPrecision::kBf16Weights;
  spec.optimizer.kind = OptimizerKind::kAdam;
  const auto map = SlotMap::Deal(spec.num_slots, {1.0});
  auto store = RowStore::Create(spec, 3, ShardRows(*map, ShardId(0), spec.rows), Parallelism{1});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::string RecordOf(const RowStore& store, LocalRow row) {
  const absl::Span<const char> record = store.RecordSpan(row);
  return {record.data(), record.size()};
}

TEST(RowStoreAbsentTest, AbsentRowsAreZerosThatNothingChanges) {
  const auto store = HeadOf200Rows();
  const auto fresh = HeadOf200Rows();
  std::vector<uint8_t> marked(200, 0);
  std::fill(marked.begin() + 20, marked.begin() + 150, 1);
  EXPECT_EQ(store->SetAbsent(marked).size(), 130u);
  EXPECT_TRUE(store->SetAbsent(marked).empty());
  EXPECT_EQ(store->present(), 70);
  EXPECT_EQ(store->memory_bytes(), fresh->memory_bytes());
  AlignedFloats gradient;
  gradient.Resize(store->stride());
  std::fill_n(gradient.data(), 24, 0.5f);
  AlignedFloats scratch;
  scratch.Resize(store->stride());
  for (uint32_t i = 19; i < 151; ++i) {
    const LocalRow row(i);
    ASSERT_EQ(store->IsAbsent(row), marked[i] != 0);
    if (marked[i] == 0) {
      EXPECT_EQ(RecordOf(*store, row), RecordOf(*fresh, row)) << i;
      continue;
    }
    EXPECT_TRUE(store->ApplyGradient(row, gradient.data(), 1,
                                     store->BeginUpdate(Step(1), kAbsentTestBound)));
    EXPECT_TRUE(store->ChangeWeights(row, RowStore::Change::kAdd, gradient.data(), 1,
                                     store->BeginUpdate(Step(1), kAbsentTestBound)));
    EXPECT_TRUE(store->RecordSpan(row).empty());
    EXPECT_TRUE(store->SetRecord(row, {}, kAbsentTestBound).ok());
    EXPECT_EQ(store->Bias(row), 0.0f);
    const float* const weights = store->ReadWeights(row, scratch.data());
    for (int64_t d = 0; d < 24; ++d) ASSERT_EQ(weights[d], 0.0f);
  }
  EXPECT_FALSE(store->SetRecord(LocalRow(7), {}, kAbsentTestBound).ok());
  ASSERT_TRUE(
      store->SetRecord(LocalRow(30), fresh->RecordSpan(LocalRow(7)), kAbsentTestBound).ok());
  EXPECT_EQ(RecordOf(*store, LocalRow(30)), RecordOf(*fresh, LocalRow(7)));
  EXPECT_EQ(store->present(), 71);
  EXPECT_EQ(store->SetAbsent({}).size(), 129u);
  EXPECT_EQ(RecordOf(*store, LocalRow(31)), RecordOf(*fresh, LocalRow(31)));
  EXPECT_EQ(store->present(), 200);
}

}  // namespace
}  // namespace dslide
