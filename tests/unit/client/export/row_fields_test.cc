#include "client/export/row_fields.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/bfloat16.h"
#include "core/engine/rows/record_digest.h"
#include "core/engine/rows/row_reader.h"

namespace dslide {
namespace {

constexpr int64_t kFieldsRows = 6;
constexpr int64_t kFieldsDim = 10;

std::vector<TableSpec> Tables() {
  std::vector<TableSpec> tables;
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdagrad,
                                   OptimizerKind::kRowWiseAdagrad, OptimizerKind::kAdam}) {
    for (const RowPrecision precision :
         {RowPrecision::kF32, RowPrecision::kBf16Weights, RowPrecision::kBf16}) {
      for (const TableRole role : {TableRole::kEmbedding, TableRole::kHead}) {
        for (const double decay : {0.0, 0.9}) {
          TableSpec& table = tables.emplace_back();
          table.name = "t";
          table.role = role;
          table.rows = kFieldsRows;
          table.dim = kFieldsDim;
          table.precision = precision;
          table.optimizer.kind = kind;
          table.optimizer.learning_rate = 0.1;
          table.optimizer.average_decay = decay;
        }
      }
    }
  }
  return tables;
}

// Rows that were updated in different steps.
std::unique_ptr<RowStore> TrainedRows(const TableSpec& table) {
  auto store = *RowStore::Create(table, 3, ShardRows::All(kFieldsRows), {.threads = 1});
  alignas(64) float gradient[16] = {};
  for (int64_t step = 1; step <= 9; ++step) {
    for (uint32_t row = 0; row < kFieldsRows; ++row) {
      if ((step + row) % 3 == 0) continue;
      for (int64_t i = 0; i < kFieldsDim; ++i) {
        gradient[i] = static_cast<float>((step * 7 + row * 3 + i) % 5 - 2);
      }
      const float bias = store->has_bias() ? 0.5f : 0.0f;
      EXPECT_TRUE(store->ApplyGradient(LocalRow(row), gradient, bias,
                                       store->BeginUpdate(Step(step), 1e4f)));
    }
  }
  return store;
}

TEST(RowFieldsTest, RowsWithStateComeBackToTheBit) {
  for (const TableSpec& table : Tables()) {
    const auto store = TrainedRows(table);
    auto fields = *RowFields::Create(table, /*with_state=*/true);
    std::vector<absl::string_view> parts;
    for (uint32_t row = 0; row < kFieldsRows; ++row) {
      const absl::Span<const char> record = store->RecordSpan(LocalRow(row));
      const auto digest = fields.Split(RowId(row), record, Step(9), &parts);
      ASSERT_TRUE(digest.ok()) << digest.status();
      EXPECT_EQ(*digest, RecordDigest(RowId(row), record));
      ASSERT_EQ(parts.size(), fields.tensors().size());
      for (size_t i = 0; i < parts.size(); ++i) {
        EXPECT_EQ(static_cast<int64_t>(parts[i].size()) * kFieldsRows, fields.tensors()[i].bytes());
      }
      const std::vector<std::string> copies(parts.begin(), parts.end());
      const std::vector<absl::string_view> again(copies.begin(), copies.end());
      auto others = *RowFields::Create(table, /*with_state=*/true);
      EXPECT_EQ(others.Join(again), record);
    }
  }
}

// What predictions read is what comes back: averages where the table keeps them.
TEST(RowFieldsTest, RowsWithoutStatePredictTheSame) {
  for (const TableSpec& table : Tables()) {
    const auto store = TrainedRows(table);
    auto fields = *RowFields::Create(table, /*with_state=*/false);
    EXPECT_EQ(fields.tensors().size(), store->has_bias() ? 2u : 1u);
    const bool halves = IsAveraged(table) && store->layout().bf16_weights();
    const RowReader reader = RowReader::Averaged(*store, Step(9));
    std::vector<absl::string_view> parts;
    for (uint32_t row = 0; row < kFieldsRows; ++row) {
      const auto digest =
          fields.Split(RowId(row), store->RecordSpan(LocalRow(row)), Step(9), &parts);
      ASSERT_TRUE(digest.ok()) << digest.status();
      auto copy = *RowStore::Create(table, 3, ShardRows::All(kFieldsRows), {.threads = 1});
      const absl::Span<const char> joined = fields.Join(parts);
      EXPECT_EQ(*digest, RecordDigest(RowId(row), joined));
      ASSERT_TRUE(copy->SetRecord(LocalRow(row), joined, 1e4f).ok());
      EXPECT_EQ(copy->LastStep(LocalRow(row)), Step(0));
      alignas(64) float expected[16];
      alignas(64) float found[16];
      const float* const wanted = reader.Weights(LocalRow(row), expected);
      const float* const weights =
          RowReader::Averaged(*copy, Step(0)).Weights(LocalRow(row), found);
      for (int64_t i = 0; i < kFieldsDim; ++i) {
        EXPECT_EQ(weights[i], halves ? ToFloat(ToBFloat16(wanted[i])) : wanted[i]);
      }
      if (store->has_bias()) {
        EXPECT_EQ(copy->Bias(LocalRow(row)), reader.Bias(LocalRow(row)));
      }
    }
  }
}

TEST(RowFieldsTest, RowsOfAnotherTableAreRefused) {
  TableSpec table = Tables().front();
  const auto store = TrainedRows(table);
  table.dim = kFieldsDim + 16;
  auto fields = *RowFields::Create(table, /*with_state=*/true);
  std::vector<absl::string_view> parts;
  EXPECT_EQ(fields.Split(RowId(0), store->RecordSpan(LocalRow(0)), Step(9), &parts).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dslide
