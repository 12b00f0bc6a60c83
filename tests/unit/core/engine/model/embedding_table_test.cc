#include "core/engine/model/embedding_table.h"

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

constexpr int64_t kEmbeddingTableRows = 300;
constexpr int64_t kEmbeddingTableDim = 21;

std::unique_ptr<EmbeddingTable> MakeEmbedding(OptimizerKind kind) {
  TableSpec spec;
  spec.name = "in";
  spec.rows = kEmbeddingTableRows;
  spec.dim = kEmbeddingTableDim;
  spec.optimizer.kind = kind;
  spec.optimizer.learning_rate = 0.5;
  const double weight = 1.0;
  const auto map = SlotMap::Deal(kDefaultNumSlots, {&weight, 1});
  auto table = EmbeddingTable::Create(spec, 1, ShardRows(*map, ShardId(0), kEmbeddingTableRows),
                                      Parallelism{1});
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

FeatureBatch MakeFeatures(int64_t batch, uint64_t key) {
  CounterRng rng(key);
  FeatureBatch features;
  features.offsets = {0};
  for (int64_t s = 0; s < batch; ++s) {
    std::set<LocalRow> rows;
    for (uint64_t i = rng.NextBelow(12); i > 0; --i) {
      rows.insert(LocalRow(static_cast<uint32_t>(rng.NextBelow(kEmbeddingTableRows))));
    }
    for (const LocalRow row : rows) {
      features.rows.push_back(row);
      features.values.push_back(rng.NextGaussian());
    }
    features.offsets.push_back(static_cast<uint32_t>(features.rows.size()));
  }
  return features;
}

TEST(EmbeddingTableTest, ForwardSumsRowsTimesValues) {
  const auto table = MakeEmbedding(OptimizerKind::kSgd);
  const FeatureBatch features = MakeFeatures(50, 1);
  std::vector<float> sums(50 * kEmbeddingTableDim, 99.0f);
  table->Forward(features, /*averaged=*/false, Parallelism{2}, absl::MakeSpan(sums));
  for (int64_t s = 0; s < 50; ++s) {
    for (int64_t i = 0; i < kEmbeddingTableDim; ++i) {
      double expected = 0.0;
      for (uint32_t f = features.offsets[s]; f < features.offsets[s + 1]; ++f) {
        expected += features.values[f] * table->store().Weights(features.rows[f])[i];
      }
      EXPECT_NEAR(sums[s * kEmbeddingTableDim + i], expected, 1e-5);
    }
  }
}

TEST(EmbeddingTableTest, BackwardUpdatesEachRowOnceAndNoOther) {
  const auto table = MakeEmbedding(OptimizerKind::kSgd);
  const auto untouched = MakeEmbedding(OptimizerKind::kSgd);
  const FeatureBatch features = MakeFeatures(50, 1);
  CounterRng rng(5);
  std::vector<float> gradient(50 * kEmbeddingTableDim);
  for (float& value : gradient) value = rng.NextGaussian();
  int64_t rejected = -1;
  const std::set<LocalRow> distinct(features.rows.begin(), features.rows.end());
  EXPECT_EQ(table->Backward(features, gradient, 1e4f, Parallelism{2}, &rejected),
            static_cast<int64_t>(distinct.size()));
  EXPECT_EQ(rejected, 0);
  EXPECT_EQ(table->applied(), Step(1));
  for (uint32_t r = 0; r < kEmbeddingTableRows; ++r) {
    const LocalRow row(r);
    std::vector<double> expected(untouched->store().Weights(row),
                                 untouched->store().Weights(row) + kEmbeddingTableDim);
    for (int64_t s = 0; s < 50; ++s) {
      for (uint32_t f = features.offsets[s]; f < features.offsets[s + 1]; ++f) {
        if (features.rows[f] != row) continue;
        for (int64_t i = 0; i < kEmbeddingTableDim; ++i) {
          expected[i] -= 0.5 * features.values[f] * gradient[s * kEmbeddingTableDim + i];
        }
      }
    }
    for (int64_t i = 0; i < kEmbeddingTableDim; ++i) {
      ASSERT_NEAR(table->store().Weights(row)[i], expected[i], 1e-5) << "row " << row;
    }
    EXPECT_EQ(table->store().LastStep(row), Step(distinct.count(row) > 0 ? 1 : 0));
  }
}

TEST(EmbeddingTableTest, RefusedRowsAreCountedAndTheOthersGoOn) {
  const auto table = MakeEmbedding(OptimizerKind::kAdam);
  FeatureBatch features;
  features.offsets = {0, 2, 4};
  features.rows = {LocalRow(1), LocalRow(2), LocalRow(2), LocalRow(3)};
  features.values = {1.0f, 1.0f, 1e30f, 1.0f};
  const std::vector<float> gradient(2 * kEmbeddingTableDim, 1e10f);
  int64_t rejected = 0;
  EXPECT_EQ(table->Backward(features, gradient, 1e20f, Parallelism{1}, &rejected), 3);
  EXPECT_EQ(rejected, 1);
  EXPECT_EQ(table->store().LastStep(LocalRow(1)), Step(1));
  EXPECT_EQ(table->store().LastStep(LocalRow(2)), Step(0));
  EXPECT_EQ(table->store().LastStep(LocalRow(3)), Step(1));
}

TEST(EmbeddingTableTest, AnEmptyBatchIsAnUpdateOfNothing) {
  const auto table = MakeEmbedding(OptimizerKind::kAdam);
  FeatureBatch features;
  features.offsets = {0, 0};
  std::vector<float> sums(kEmbeddingTableDim, 1.0f);
  table->Forward(features, /*averaged=*/false, Parallelism{1}, absl::MakeSpan(sums));
  EXPECT_THAT(sums, testing::Each(0.0f));
  int64_t rejected = 0;
  EXPECT_EQ(table->Backward(features, sums, 1.0f, Parallelism{1}, &rejected), 0);
  EXPECT_EQ(table->applied(), Step(1));
}

}  // namespace
}  // namespace dslide
