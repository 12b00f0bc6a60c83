#include "core/model/row_store.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/model/aligned_floats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

constexpr float kBound = 1e4f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TableSpec MakeTable(OptimizerKind kind, TableRole role, int64_t rows, int64_t dim) {
  TableSpec spec;
  spec.name = "table";
  spec.role = role;
  spec.rows = rows;
  spec.dim = dim;
  spec.num_slots = 16;
  spec.optimizer.kind = kind;
  spec.optimizer.learning_rate = 0.1;
  return spec;
}

std::unique_ptr<RowStore> MakeStore(const TableSpec& spec, int64_t shard = 0, int64_t shards = 1,
                                    int threads = 1, uint64_t seed = 3) {
  const std::vector<double> weights(shards, 1.0);
  const auto map = SlotMap::Deal(spec.num_slots, weights);
  auto store =
      RowStore::Create(spec, seed, ShardRows(*map, ShardId(static_cast<int32_t>(shard)), spec.rows),
                       Parallelism{threads});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::vector<float> Copy(const RowStore& store, LocalRow row) {
  const absl::Span<const float> record = store.RecordSpan(row);
  return {record.begin(), record.end()};
}

class RowStoreKindTest
    : public testing::TestWithParam<std::tuple<OptimizerKind, TableRole, int64_t>> {
 protected:
  TableSpec Spec(int64_t rows = 40) const {
    return MakeTable(std::get<0>(GetParam()), std::get<1>(GetParam()), rows,
                     std::get<2>(GetParam()));
  }
};

TEST_P(RowStoreKindTest, RecordsAreAlignedAndUnusedFloatsStayZero) {
  auto store = MakeStore(Spec());
  const int64_t dim = store->dim();
  EXPECT_EQ(store->record_floats() % 16, 0);
  EXPECT_EQ(store->stride(), (dim + 15) / 16 * 16);
  AlignedFloats gradient;
  gradient.Resize(store->stride());
  std::fill_n(gradient.data(), store->stride(), 0.5f);
  const int64_t vectors = 1 + store->optimizer().state_vectors();
  const int64_t used =
      1 + store->optimizer().bias_state_floats() + store->optimizer().row_state_floats() + 1;
  for (int64_t step = 1; step < 4; ++step) {
    const LocalRow row(7);
    EXPECT_EQ(std::bit_cast<uintptr_t>(store->Weights(row)) % 64, 0u);
    ASSERT_TRUE(store->ApplyGradient(row, gradient.data(), 0.5f, Step(step), kBound));
    EXPECT_EQ(store->LastStep(row), Step(step));
    const std::vector<float> record = Copy(*store, row);
    ASSERT_EQ(static_cast<int64_t>(record.size()), vectors * store->stride() + 16);
    for (int64_t v = 0; v < vectors; ++v) {
      for (int64_t i = dim; i < store->stride(); ++i) EXPECT_EQ(record[v * store->stride() + i], 0);
    }
    for (int64_t i = used; i < 16; ++i) EXPECT_EQ(record[vectors * store->stride() + i], 0);
    EXPECT_EQ(store->Bias(row) != 0.0f, store->has_bias());
  }
}

TEST_P(RowStoreKindTest, RefusedUpdatesChangeNothing) {
  auto store = MakeStore(Spec());
  const LocalRow row(3);
  const int64_t dim = store->dim();
  AlignedFloats gradient;
  gradient.Resize(dim);
  std::fill_n(gradient.data(), dim, 1.0f);
  ASSERT_TRUE(store->ApplyGradient(row, gradient.data(), 1.0f, Step(1), kBound));
  const std::vector<float> before = Copy(*store, row);
  const auto expect_refused = [&](float value, float bias, float bound) {
    gradient.data()[dim - 1] = value;
    EXPECT_FALSE(store->ApplyGradient(row, gradient.data(), bias, Step(2), bound));
    EXPECT_EQ(Copy(*store, row), before) << value << " " << bias << " " << bound;
  };
  expect_refused(std::numeric_limits<float>::quiet_NaN(), 0.0f, kBound);
  expect_refused(-kInfinity, 0.0f, kBound);
  expect_refused(1.1e4f, 0.0f, kBound);
  // Weights of about 0.1 pass a bound of 0.01, whatever the gradient.
  expect_refused(0.0f, 0.0f, 1e-3f);
  if (store->has_bias()) {
    expect_refused(0.0f, std::numeric_limits<float>::quiet_NaN(), kBound);
    expect_refused(0.0f, 2e4f, kBound);
  }
  EXPECT_EQ(store->LastStep(row), Step(1));
}

TEST_P(RowStoreKindTest, RecordsCanBeMovedToAnotherStore) {
  auto from = MakeStore(Spec());
  auto to = MakeStore(Spec(), 0, 1, 1, /*seed=*/99);
  AlignedFloats gradient;
  gradient.Resize(from->dim());
  std::fill_n(gradient.data(), from->dim(), -0.25f);
  from->ApplyGradient(LocalRow(5), gradient.data(), 0.5f, Step(0x7fffffff), kBound);
  EXPECT_NE(from->Digest(Parallelism{1}), to->Digest(Parallelism{1}));
  for (int64_t i = 0; i < from->num_rows(); ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    ASSERT_TRUE(to->SetRecord(row, from->RecordSpan(row), kBound).ok());
  }
  EXPECT_EQ(from->Digest(Parallelism{1}), to->Digest(Parallelism{2}));
  EXPECT_EQ(to->LastStep(LocalRow(5)), Step(0x7fffffff));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RowStoreKindTest,
    testing::Combine(testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdagrad,
                                     OptimizerKind::kRowWiseAdagrad, OptimizerKind::kAdam),
                     testing::Values(TableRole::kEmbedding, TableRole::kDense, TableRole::kHead),
                     testing::Values(1, 16, 37)));

TEST(RowStoreTest, SetRecordRefusesBadRecordsAndKeepsTheOld) {
  auto store = MakeStore(MakeTable(OptimizerKind::kAdam, TableRole::kHead, 20, 10));
  const LocalRow row(2);
  const std::vector<float> before = Copy(*store, row);
  const auto error = [&](int64_t place, float value) {
    std::vector<float> record = before;
    record[place] = value;
    const absl::Status status = store->SetRecord(row, record, kBound);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Copy(*store, row), before);
    return std::string(status.message());
  };
  EXPECT_THAT(error(0, kInfinity), HasSubstr("record of row 1 has a weight or state"));
  EXPECT_THAT(error(9, -1.5e4f), HasSubstr("beyond 10000"));
  EXPECT_THAT(error(16, std::numeric_limits<float>::quiet_NaN()), HasSubstr("not finite"));
  EXPECT_THAT(error(48, 2e4f), HasSubstr("beyond"));
  EXPECT_THAT(error(10, 1.0f), HasSubstr("unused float"));
  EXPECT_THAT(error(63, 1.0f), HasSubstr("unused float"));
  std::vector<float> record = before;
  record[16] = 1e9f;  // a sum of squares may pass the bound of weights
  EXPECT_TRUE(store->SetRecord(row, record, kBound).ok());
  record.push_back(0.0f);
  EXPECT_THAT(std::string(store->SetRecord(row, record, kBound).message()),
              HasSubstr("has 65 floats, this table's records have 64"));
}

TEST(RowStoreTest, ChangeWeightsAddsOrAssigns) {
  auto store = MakeStore(MakeTable(OptimizerKind::kAdam, TableRole::kHead, 20, 3));
  const LocalRow row(4);
  AlignedFloats gradient;
  gradient.Resize(3);
  std::fill_n(gradient.data(), 3, 1.0f);
  ASSERT_TRUE(store->ApplyGradient(row, gradient.data(), 1.0f, Step(9), kBound));
  const std::vector<float> before = Copy(*store, row);
  const std::vector<float> values = {1.0f, 2.0f, -3.0f};

  ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAdd, values.data(), 0.5f, kBound));
  std::vector<float> expected = before;
  for (int i = 0; i < 3; ++i) expected[i] += values[i];
  expected[48] += 0.5f;
  EXPECT_EQ(Copy(*store, row), expected) << "state and last step stay";

  ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAssign, values.data(), 7.0f, kBound));
  expected.assign(expected.size(), 0.0f);
  std::copy(values.begin(), values.end(), expected.begin());
  expected[48] = 7.0f;
  expected[51] = before[51];  // the last step
  EXPECT_EQ(Copy(*store, row), expected);
  EXPECT_EQ(store->LastStep(row), Step(9));

  const std::vector<float> huge = {0.0f, 9999.0f, 0.0f};
  EXPECT_FALSE(store->ChangeWeights(row, RowStore::Change::kAdd, huge.data(), 0.0f, kBound));
  EXPECT_FALSE(
      store->ChangeWeights(row, RowStore::Change::kAssign, values.data(), kInfinity, kBound));
  EXPECT_EQ(Copy(*store, row), expected);
}

TEST(RowStoreTest, FirstRowsDoNotDependOnShardsOrThreads) {
  const TableSpec spec = MakeTable(OptimizerKind::kSgd, TableRole::kEmbedding, 5000, 24);
  auto whole = MakeStore(spec);
  uint64_t parts = 0;
  for (int64_t shard = 0; shard < 5; ++shard) {
    auto part = MakeStore(spec, shard, 5, /*threads=*/4);
    parts += part->Digest(Parallelism{3});
    for (int64_t i = 0; i < part->num_rows(); i += 97) {
      const LocalRow local(static_cast<uint32_t>(i));
      EXPECT_EQ(Copy(*part, local),
                Copy(*whole, whole->rows().ToLocal(part->rows().ToGlobal(local))));
    }
  }
  EXPECT_EQ(parts, whole->Digest(Parallelism{1}));
}

TEST(RowStoreTest, FirstRowsDependOnSeedAndTableName) {
  TableSpec spec = MakeTable(OptimizerKind::kSgd, TableRole::kEmbedding, 50, 24);
  const uint64_t digest = MakeStore(spec)->Digest(Parallelism{1});
  EXPECT_NE(MakeStore(spec, 0, 1, 1, /*seed=*/4)->Digest(Parallelism{1}), digest);
  spec.name = "elbat";
  EXPECT_NE(MakeStore(spec)->Digest(Parallelism{1}), digest);
}

// Moments of the first weights; the tolerances are six standard errors of 128,000 draws.
TEST(RowStoreTest, FirstWeightsHaveTheDistributionThatTheSpecSays) {
  TableSpec spec = MakeTable(OptimizerKind::kSgd, TableRole::kHead, 2000, 64);
  const auto moment = [&](int power) {
    auto store = MakeStore(spec);
    double sum = 0.0;
    for (int64_t i = 0; i < store->num_rows(); ++i) {
      const float* const weights = store->Weights(LocalRow(static_cast<uint32_t>(i)));
      for (int64_t j = 0; j < 64; ++j) sum += std::pow(weights[j], power);
    }
    return sum / static_cast<double>(store->num_rows() * 64);
  };
  const double error = 6.0 / std::sqrt(128000.0);
  EXPECT_NEAR(moment(1), 0.0, 0.125 * error);  // gaussian of 1 / sqrt(64)
  EXPECT_NEAR(moment(2) * 64.0, 1.0, 1.5 * error);
  EXPECT_NEAR(moment(3) * 512.0, 0.0, 4.0 * error);
  EXPECT_NEAR(moment(4) * 4096.0, 2.95, 10.0 * error);
  spec.init = {InitKind::kGaussian, 2.0};
  EXPECT_NEAR(moment(2), 4.0, 6.0 * error);
  spec.init = {InitKind::kUniform, 3.0};
  EXPECT_NEAR(moment(1), 0.0, 1.8 * error);
  EXPECT_NEAR(moment(2), 3.0, 3.0 * error);
  spec.init = {InitKind::kZero, 0.0};
  EXPECT_EQ(moment(2), 0.0);
}

TEST(RowStoreTest, DigestSeesEveryFloatAndTheRowItIsIn) {
  auto store = MakeStore(MakeTable(OptimizerKind::kAdam, TableRole::kHead, 16, 4));
  const uint64_t digest = store->Digest(Parallelism{1});
  for (const int64_t place : {0, 3, 16, 35, 48, 49, 50}) {
    std::vector<float> record = Copy(*store, LocalRow(1));
    record[place] += 0.25f;
    const std::vector<float> old = Copy(*store, LocalRow(1));
    ASSERT_TRUE(store->SetRecord(LocalRow(1), record, kBound).ok());
    EXPECT_NE(store->Digest(Parallelism{1}), digest) << place;
    ASSERT_TRUE(store->SetRecord(LocalRow(1), old, kBound).ok());
  }
  const std::vector<float> one = Copy(*store, LocalRow(1));
  const std::vector<float> two = Copy(*store, LocalRow(2));
  ASSERT_TRUE(store->SetRecord(LocalRow(1), two, kBound).ok());
  ASSERT_TRUE(store->SetRecord(LocalRow(2), one, kBound).ok());
  EXPECT_NE(store->Digest(Parallelism{1}), digest) << "swapped rows";
}

TEST(RowStoreTest, AnEmptyPartIsFine) {
  auto store = MakeStore(MakeTable(OptimizerKind::kAdam, TableRole::kHead, 1, 4), 1, 2);
  EXPECT_EQ(store->num_rows(), 0);
  EXPECT_EQ(store->memory_bytes(), 0);
  EXPECT_EQ(store->Digest(Parallelism{2}), 0u);
}

}  // namespace
}  // namespace dslide
