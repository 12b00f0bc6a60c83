// Rows that keep averages.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/engine/rows/row_store.h"
#include "gtest/gtest.h"
#include "tests/reference/optim_reference.h"

namespace dslide {
namespace {

constexpr float kAverageBound = 1e4f;

TableSpec AveragedTable(OptimizerKind kind, TableRole role, int64_t dim, RowPrecision precision) {
  TableSpec spec;
  spec.name = "table";
  spec.role = role;
  spec.rows = 20;
  spec.dim = dim;
  spec.num_slots = 16;
  spec.optimizer.kind = kind;
  spec.optimizer.learning_rate = 0.1;
  spec.optimizer.average_decay = 0.9;
  spec.precision = precision;
  return spec;
}

std::unique_ptr<RowStore> AveragedStore(const TableSpec& spec) {
  const auto map = SlotMap::Deal(spec.num_slots, {1.0});
  auto store =
      RowStore::Create(spec, /*model_seed=*/3, ShardRows(*map, ShardId(0), spec.rows), {1});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::vector<float> WeightsBeside(const RowStore& store, LocalRow row) {
  std::vector<float> scratch(store.stride());
  const float* const weights = store.ReadWeights(row, scratch.data());
  return {weights, weights + store.dim()};
}

bool UpdateAveraged(RowStore& store, LocalRow row, AlignedFloats& gradient, float bias,
                    int64_t step) {
  return store.ApplyGradient(row, gradient.data(), bias,
                             store.BeginUpdate(Step(step), kAverageBound));
}

class RowAveragesTest
    : public testing::TestWithParam<std::tuple<OptimizerKind, TableRole, int64_t, RowPrecision>> {};

// Rows that some steps touch, against averages of what is stored, computed in every step.
TEST_P(RowAveragesTest, AveragesAreThoseOfAllSteps) {
  constexpr int64_t kSteps = 150;
  constexpr uint32_t kRows = 4;
  constexpr double kDecay = 0.9;
  TableSpec spec = std::apply(AveragedTable, GetParam());
  spec.optimizer.average_decay = 0.0;
  auto plain = AveragedStore(spec);
  spec.optimizer.average_decay = kDecay;
  auto store = AveragedStore(spec);
  EXPECT_LT(plain->record_bytes(), store->record_bytes());
  EXPECT_FALSE(plain->has_average());
  const auto dim = static_cast<size_t>(store->dim());
  const RowLayout& layout = store->layout();
  // A row's weights and its bias.
  std::vector<std::vector<reference::MovingAverage>> dense(
      kRows, std::vector<reference::MovingAverage>(dim + 1, reference::MovingAverage(kDecay)));
  CounterRng rng(23);
  AlignedFloats gradient;
  gradient.Resize(store->stride());
  std::vector<float> mean(store->stride());
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (uint32_t r = 0; r < kRows; ++r) {
      const LocalRow row(r);
      // The last row waits for a while, the others are touched more and more seldom.
      const bool touched = r == 3 ? step == 100 : rng.NextBelow(1 + 4 * r) == 0;
      for (size_t j = 0; j < dim; ++j) gradient.data()[j] = rng.NextUniform() - 0.4f;
      if (touched) {
        ASSERT_TRUE(UpdateAveraged(*store, row, gradient, 0.25f, step));
        ASSERT_TRUE(UpdateAveraged(*plain, row, gradient, 0.25f, step));
      }
      const std::vector<float> weights = WeightsBeside(*store, row);
      ASSERT_EQ(weights, WeightsBeside(*plain, row)) << "training does not see the average";
      for (size_t j = 0; j < dim; ++j) dense[r][j].Add(double{weights[j]});
      dense[r][dim].Add(double{store->Bias(row)});
      store->ReadAverage(row, Step(step), mean.data());
      // Six roundings an update of numbers below 8; a lag in bf16 is rounded by 2^-7 of itself in
      // each update, of which decay leaves ten such errors together.
      const double exact = static_cast<double>(step) * 6.0 * 8.0 * 0x1.0p-24;
      const double bound = exact + (layout.bf16_state() ? 10.0 * 0x1.0p-7 * 2.0 : 0.0);
      for (size_t j = 0; j < dim; ++j) {
        ASSERT_NEAR(mean[j], dense[r][j].Mean(), bound) << r << " at step " << step;
      }
      ASSERT_NEAR(store->AverageBias(row, Step(step)), dense[r][dim].Mean(), exact);
    }
  }
}

TEST(RowAveragesOfChangesTest, AnAverageMovesWithWhatIsAddedAndBecomesWhatIsAssigned) {
  for (const RowPrecision precision :
       {RowPrecision::kF32, RowPrecision::kBf16Weights, RowPrecision::kBf16}) {
    const TableSpec spec = AveragedTable(OptimizerKind::kAdam, TableRole::kHead, 3, precision);
    auto store = AveragedStore(spec);
    const LocalRow row(4);
    AlignedFloats gradient;
    gradient.Resize(3);
    std::fill_n(gradient.data(), 3, 1.0f);
    ASSERT_TRUE(UpdateAveraged(*store, row, gradient, 1.0f, 1));
    ASSERT_TRUE(UpdateAveraged(*store, row, gradient, 1.0f, 2));
    std::vector<float> before(store->stride());
    store->ReadAverage(row, Step(2), before.data());
    const float bias = store->AverageBias(row, Step(2));
    EXPECT_NE(bias, store->Bias(row));

    const RowUpdate update = store->BeginUpdate(Step(3), kAverageBound);
    // Sums that bf16 holds exactly or nearly so.
    const std::vector<float> values = {1.0f, 2.0f, -3.0f};
    ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAdd, values.data(), 0.5f, update));
    std::vector<float> after(store->stride());
    store->ReadAverage(row, Step(2), after.data());
    for (int j = 0; j < 3; ++j) EXPECT_NEAR(after[j], before[j] + values[j], 0x1.0p-6);
    EXPECT_NEAR(store->AverageBias(row, Step(2)), bias + 0.5f, 1e-6);

    ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAssign, values.data(), 7.0f, update));
    store->ReadAverage(row, Step(9), after.data());
    after.resize(3);
    EXPECT_EQ(after, values);
    EXPECT_EQ(store->AverageBias(row, Step(9)), 7.0f);
  }
}

TEST(RowAveragesOfChangesTest, ARefusedUpdateLeavesTheAverage) {
  const TableSpec spec =
      AveragedTable(OptimizerKind::kSgd, TableRole::kHead, 3, RowPrecision::kF32);
  auto store = AveragedStore(spec);
  AlignedFloats gradient;
  gradient.Resize(3);
  std::fill_n(gradient.data(), 3, 1.0f);
  ASSERT_TRUE(UpdateAveraged(*store, LocalRow(4), gradient, 1.0f, 1));
  const absl::Span<const char> record = store->RecordSpan(LocalRow(4));
  const std::vector<char> before(record.begin(), record.end());
  gradient.data()[2] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(UpdateAveraged(*store, LocalRow(4), gradient, 1.0f, 2));
  EXPECT_EQ(store->RecordSpan(LocalRow(4)), absl::MakeConstSpan(before));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RowAveragesTest,
    testing::Combine(testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdagrad,
                                     OptimizerKind::kRowWiseAdagrad, OptimizerKind::kAdam),
                     testing::Values(TableRole::kEmbedding, TableRole::kHead),
                     testing::Values(1, 16, 37),
                     testing::Values(RowPrecision::kF32, RowPrecision::kBf16Weights,
                                     RowPrecision::kBf16)));

}  // namespace
}  // namespace dslide
