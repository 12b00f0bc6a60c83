#include "core/engine/rows/row_store.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/bfloat16.h"
#include "core/base/counter_rng.h"
#include "core/engine/rows/aligned_floats.h"
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

// A record as bytes, and one of an f32 table as floats.
std::vector<char> Bytes(const RowStore& store, LocalRow row) {
  const absl::Span<const char> record = store.RecordSpan(row);
  return {record.begin(), record.end()};
}
std::vector<float> Copy(const RowStore& store, LocalRow row) {
  std::vector<float> record(store.record_bytes() / sizeof(float));
  std::memcpy(record.data(), store.RecordSpan(row).data(), store.record_bytes());
  return record;
}
absl::Span<const char> AsBytes(const std::vector<float>& record) {
  return {reinterpret_cast<const char*>(record.data()), record.size() * sizeof(float)};
}

std::vector<float> WeightsOf(const RowStore& store, LocalRow row) {
  std::vector<float> scratch(store.stride());
  const float* const weights = store.ReadWeights(row, scratch.data());
  return {weights, weights + store.dim()};
}

bool Apply(RowStore& store, LocalRow row, AlignedFloats& gradient, float bias, int64_t step,
           float bound = kBound) {
  return store.ApplyGradient(row, gradient.data(), bias, store.BeginUpdate(Step(step), bound));
}

TEST(RowStoreTest, AnUpdateMayHaveALearningRateOfItsOwn) {
  TableSpec spec;
  spec.name = "t";
  spec.rows = 4;
  spec.dim = 2;
  spec.optimizer = {.kind = OptimizerKind::kSgd,
                    .learning_rate = 0.5,
                    .schedule = {.kind = ScheduleKind::kLinear, .decay_steps = 1}};
  const std::unique_ptr<RowStore> store = MakeStore(spec);
  AlignedFloats gradient;
  gradient.Resize(2);
  gradient.data()[0] = gradient.data()[1] = 1.0f;
  const LocalRow row(0);
  const std::vector<float> first = WeightsOf(*store, row);
  // The schedule has ended: its rate is 0.
  ASSERT_TRUE(
      store->ApplyGradient(row, gradient.data(), 0.0f, store->BeginUpdate(Step(1), kBound)));
  EXPECT_EQ(WeightsOf(*store, row), first);
  ASSERT_TRUE(
      store->ApplyGradient(row, gradient.data(), 0.0f, store->BeginUpdate(Step(2), kBound, 0.25)));
  EXPECT_FLOAT_EQ(WeightsOf(*store, row)[0], first[0] - 0.25f);
}

class RowStoreKindTest
    : public testing::TestWithParam<std::tuple<OptimizerKind, TableRole, int64_t, RowPrecision>> {
 protected:
  TableSpec Spec(int64_t rows = 40) const {
    TableSpec spec =
        MakeTable(std::get<0>(GetParam()), std::get<1>(GetParam()), rows, std::get<2>(GetParam()));
    spec.precision = std::get<3>(GetParam());
    return spec;
  }
};

TEST_P(RowStoreKindTest, RecordsAreAlignedAndUnusedBytesStayZero) {
  auto store = MakeStore(Spec());
  const RowLayout& layout = store->layout();
  const int64_t dim = store->dim();
  EXPECT_EQ(store->record_bytes() % 64, 0);
  EXPECT_EQ(store->stride(), (dim + 15) / 16 * 16);
  AlignedFloats gradient;
  gradient.Resize(store->stride());
  std::fill_n(gradient.data(), store->stride(), 0.5f);
  const int64_t used =
      1 + store->optimizer().bias_state_floats() + store->optimizer().row_state_floats() + 1;
  const auto expect_zero = [](const std::vector<char>& record, int64_t begin, int64_t end) {
    EXPECT_TRUE(std::all_of(record.begin() + begin, record.begin() + end,
                            [](char byte) { return byte == 0; }))
        << begin << " to " << end;
  };
  for (int64_t step = 1; step < 4; ++step) {
    const LocalRow row(7);
    EXPECT_EQ(std::bit_cast<uintptr_t>(store->RecordSpan(row).data()) % 64, 0u);
    ASSERT_TRUE(Apply(*store, row, gradient, 0.5f, step));
    EXPECT_EQ(store->LastStep(row), Step(step));
    const std::vector<char> record = Bytes(*store, row);
    const int64_t weight_size = layout.bf16_weights() ? 2 : 4;
    const int64_t state_size = layout.bf16_state() ? 2 : 4;
    expect_zero(record, weight_size * dim, layout.weight_bytes);
    for (int64_t v = 0; v < store->optimizer().state_vectors(); ++v) {
      const int64_t begin = layout.weight_bytes + v * layout.vector_bytes;
      expect_zero(record, begin + state_size * dim, begin + layout.vector_bytes);
    }
    expect_zero(record, layout.tail_offset + 4 * used, store->record_bytes());
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
  ASSERT_TRUE(Apply(*store, row, gradient, 1.0f, 1));
  const std::vector<char> before = Bytes(*store, row);
  const auto expect_refused = [&](float value, float bias, float bound) {
    gradient.data()[dim - 1] = value;
    EXPECT_FALSE(Apply(*store, row, gradient, bias, 2, bound));
    EXPECT_EQ(Bytes(*store, row), before) << value << " " << bias << " " << bound;
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
  Apply(*from, LocalRow(5), gradient, 0.5f, 0x7fffffff);
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
                     testing::Values(1, 16, 37),
                     testing::Values(RowPrecision::kF32, RowPrecision::kBf16Weights,
                                     RowPrecision::kBf16)));

TEST(RowStoreTest, SetRecordRefusesBadRecordsAndKeepsTheOld) {
  auto store = MakeStore(MakeTable(OptimizerKind::kAdam, TableRole::kHead, 20, 10));
  const LocalRow row(2);
  const std::vector<float> before = Copy(*store, row);
  const auto error = [&](int64_t place, float value) {
    std::vector<float> record = before;
    record[place] = value;
    const absl::Status status = store->SetRecord(row, AsBytes(record), kBound);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Copy(*store, row), before);
    return std::string(status.message());
  };
  EXPECT_THAT(error(0, kInfinity), HasSubstr("record of row 1 has a weight or state"));
  EXPECT_THAT(error(9, -1.5e4f), HasSubstr("beyond 10000"));
  EXPECT_THAT(error(16, std::numeric_limits<float>::quiet_NaN()), HasSubstr("not finite"));
  EXPECT_THAT(error(48, 2e4f), HasSubstr("beyond"));
  EXPECT_THAT(error(10, 1.0f), HasSubstr("unused byte"));
  EXPECT_THAT(error(63, 1.0f), HasSubstr("unused byte"));
  std::vector<float> record = before;
  record[16] = 1e9f;  // a sum of squares may pass the bound of weights
  EXPECT_TRUE(store->SetRecord(row, AsBytes(record), kBound).ok());
  record.push_back(0.0f);
  EXPECT_THAT(std::string(store->SetRecord(row, AsBytes(record), kBound).message()),
              HasSubstr("has 260 bytes, this table's records have 256"));
}

TEST(RowStoreTest, ChangeWeightsAddsOrAssigns) {
  auto store = MakeStore(MakeTable(OptimizerKind::kAdam, TableRole::kHead, 20, 3));
  const LocalRow row(4);
  AlignedFloats gradient;
  gradient.Resize(3);
  std::fill_n(gradient.data(), 3, 1.0f);
  ASSERT_TRUE(Apply(*store, row, gradient, 1.0f, 9));
  const std::vector<float> before = Copy(*store, row);
  const RowUpdate update = store->BeginUpdate(Step(10), kBound);
  const std::vector<float> values = {1.0f, 2.0f, -3.0f};

  ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAdd, values.data(), 0.5f, update));
  std::vector<float> expected = before;
  for (int i = 0; i < 3; ++i) expected[i] += values[i];
  expected[48] += 0.5f;
  EXPECT_EQ(Copy(*store, row), expected) << "state and last step stay";

  ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAssign, values.data(), 7.0f, update));
  expected.assign(expected.size(), 0.0f);
  std::copy(values.begin(), values.end(), expected.begin());
  expected[48] = 7.0f;
  expected[51] = before[51];  // the last step
  EXPECT_EQ(Copy(*store, row), expected);
  EXPECT_EQ(store->LastStep(row), Step(9));

  const std::vector<float> huge = {0.0f, 9999.0f, 0.0f};
  EXPECT_FALSE(store->ChangeWeights(row, RowStore::Change::kAdd, huge.data(), 0.0f, update));
  EXPECT_FALSE(
      store->ChangeWeights(row, RowStore::Change::kAssign, values.data(), kInfinity, update));
  EXPECT_EQ(Copy(*store, row), expected);
}

TEST(RowStoreTest, ChangeWeightsReadsValuesThatStartAtAnyByte) {
  const std::vector<float> values = {0.25f, -2.0f, 3.5f};
  for (const RowPrecision precision :
       {RowPrecision::kF32, RowPrecision::kBf16Weights, RowPrecision::kBf16}) {
    for (const RowStore::Change change : {RowStore::Change::kAdd, RowStore::Change::kAssign}) {
      TableSpec table = MakeTable(OptimizerKind::kAdam, TableRole::kHead, 20, 3);
      table.precision = precision;
      auto aligned = MakeStore(table);
      auto shifted = MakeStore(table);
      const RowUpdate update = aligned->BeginUpdate(Step(1), kBound);
      std::vector<char> bytes(1 + values.size() * sizeof(float));
      std::memcpy(bytes.data() + 1, values.data(), bytes.size() - 1);
      const LocalRow row(4);
      ASSERT_TRUE(aligned->ChangeWeights(row, change, values.data(), 0.5f, update));
      ASSERT_TRUE(shifted->ChangeWeights(row, change, bytes.data() + 1, 0.5f, update));
      EXPECT_EQ(aligned->RecordSpan(row), shifted->RecordSpan(row));
    }
  }
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
    ASSERT_TRUE(store->SetRecord(LocalRow(1), AsBytes(record), kBound).ok());
    EXPECT_NE(store->Digest(Parallelism{1}), digest) << place;
    ASSERT_TRUE(store->SetRecord(LocalRow(1), AsBytes(old), kBound).ok());
  }
  const std::vector<float> one = Copy(*store, LocalRow(1));
  const std::vector<float> two = Copy(*store, LocalRow(2));
  ASSERT_TRUE(store->SetRecord(LocalRow(1), AsBytes(two), kBound).ok());
  ASSERT_TRUE(store->SetRecord(LocalRow(2), AsBytes(one), kBound).ok());
  EXPECT_NE(store->Digest(Parallelism{1}), digest) << "swapped rows";
}

TableSpec ShortTable(RowPrecision precision, OptimizerKind kind = OptimizerKind::kAdam) {
  TableSpec spec = MakeTable(kind, TableRole::kHead, 300, 37);
  spec.precision = precision;
  return spec;
}

constexpr RowPrecision kShort[] = {RowPrecision::kBf16Weights, RowPrecision::kBf16};

TEST(ShortRowTest, FirstWeightsAreTheNearestToThoseOfF32) {
  auto full = MakeStore(ShortTable(RowPrecision::kF32));
  for (const RowPrecision precision : kShort) {
    auto store = MakeStore(ShortTable(precision));
    EXPECT_LT(store->record_bytes(), full->record_bytes());
    for (const uint32_t row : {0u, 17u, 299u}) {
      const std::vector<float> wanted = WeightsOf(*full, LocalRow(row));
      const std::vector<float> stored = WeightsOf(*store, LocalRow(row));
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(stored[i], ToFloat(ToBFloat16(wanted[i])));
      }
    }
  }
}

// 13 updates of every row, cut over shards and threads in different ways, give equal bytes.
TEST(ShortRowTest, BytesDoNotDependOnShardsOrThreads) {
  for (const RowPrecision precision : kShort) {
    const TableSpec spec = ShortTable(precision);
    const auto train = [&](int64_t shard, int64_t shards, int threads) {
      auto store = MakeStore(spec, shard, shards, threads);
      for (int64_t step = 1; step <= 13; ++step) {
        const RowUpdate update = store->BeginUpdate(Step(step), kBound);
        ParallelFor(Parallelism{threads}, store->num_rows(), 4, [&](int64_t i, int) {
          const LocalRow row(static_cast<uint32_t>(i));
          CounterRng rng(DeriveKey(step, store->rows().ToGlobal(row).value()));
          AlignedFloats gradient;
          gradient.Resize(spec.dim);
          for (int64_t d = 0; d < spec.dim; ++d) gradient.data()[d] = rng.NextGaussian();
          EXPECT_TRUE(store->ApplyGradient(row, gradient.data(), 0.1f, update));
        });
      }
      return store->Digest(Parallelism{1});
    };
    const uint64_t whole = train(0, 1, 1);
    EXPECT_EQ(whole, train(0, 1, 4));
    EXPECT_EQ(whole, train(0, 3, 2) + train(1, 3, 1) + train(2, 3, 3));
  }
}

// A rate of 1e-4 moves a weight near 1 by a hundredth of the distance of two bf16 numbers, which
// rounding to nearest would lose 1,000 times over. The sum is a walk of 1,000 roundings: its
// standard deviation is below sqrt(1000 * 0.0128) steps of 2^-7, and the mean of 37 weights is held
// to six of their standard errors.
TEST(ShortRowTest, SmallUpdatesAreNotLost) {
  for (const RowPrecision precision : kShort) {
    TableSpec spec = ShortTable(precision, OptimizerKind::kSgd);
    spec.optimizer.learning_rate = 1e-4;
    auto store = MakeStore(spec);
    const LocalRow row(3);
    const std::vector<float> ones(spec.dim, 1.0f);
    ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAssign, ones.data(), 0.0f,
                                     store->BeginUpdate(Step(1), kBound)));
    AlignedFloats gradient;
    gradient.Resize(spec.dim);
    std::fill_n(gradient.data(), spec.dim, -1.0f);
    for (int64_t step = 2; step <= 1001; ++step) ASSERT_TRUE(Apply(*store, row, gradient, 0, step));
    double mean = 0.0;
    for (const float weight : WeightsOf(*store, row)) mean += weight / double(spec.dim);
    const double error = std::sqrt(1000 * 0.0128) * 0x1.0p-7 / std::sqrt(double(spec.dim));
    EXPECT_NEAR(mean, 1.1, 6 * error);
    // The same as additions.
    const std::vector<float> small(spec.dim, 1e-4f);
    for (int64_t step = 2000; step < 3000; ++step) {
      ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAdd, small.data(), 0.0f,
                                       store->BeginUpdate(Step(step), kBound)));
    }
    double later = 0.0;
    for (const float weight : WeightsOf(*store, row)) later += weight / double(spec.dim);
    EXPECT_NEAR(later - mean, 0.1, 6 * error);
  }
}

TEST(ShortRowTest, AssignedWeightsAreTheNearestAndStateBecomesZero) {
  for (const RowPrecision precision : kShort) {
    auto store = MakeStore(ShortTable(precision));
    const LocalRow row(4);
    AlignedFloats gradient;
    gradient.Resize(37);
    std::fill_n(gradient.data(), 37, 1.0f);
    ASSERT_TRUE(Apply(*store, row, gradient, 1.0f, 9));
    std::vector<float> values(37);
    for (int i = 0; i < 37; ++i) values[i] = 0.1f * static_cast<float>(i - 18);
    const RowUpdate update = store->BeginUpdate(Step(10), kBound);
    ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAssign, values.data(), 7.0f, update));
    for (int i = 0; i < 37; ++i) {
      EXPECT_EQ(WeightsOf(*store, row)[i], ToFloat(ToBFloat16(values[i])));
    }
    EXPECT_EQ(store->Bias(row), 7.0f);
    EXPECT_EQ(store->LastStep(row), Step(9));
    const std::vector<char> record = Bytes(*store, row);
    const RowLayout& layout = store->layout();
    EXPECT_TRUE(std::all_of(record.begin() + layout.weight_bytes,
                            record.begin() + layout.tail_offset, [](char c) { return c == 0; }));
  }
}

// 1.005 is within a bound of 1.005; rounded up to 1.0078 it is not, and a checkpoint would be
// refused for it. Whatever the dice say, what is stored is within the bound.
TEST(ShortRowTest, RoundingNeverPassesTheBound) {
  auto store = MakeStore(ShortTable(RowPrecision::kBf16, OptimizerKind::kSgd));
  constexpr float kTight = 1.005f;
  int64_t refused = 0;
  const std::vector<float> zeros(37, 0.0f);
  std::vector<float> value(37, 0.0f);
  value[36] = kTight;
  for (int64_t step = 1; step < 100; ++step) {
    const LocalRow row(static_cast<uint32_t>(step));
    const RowUpdate update = store->BeginUpdate(Step(step), kTight);
    ASSERT_TRUE(store->ChangeWeights(row, RowStore::Change::kAssign, zeros.data(), 0.0f, update));
    const std::vector<char> before = Bytes(*store, row);
    if (!store->ChangeWeights(row, RowStore::Change::kAdd, value.data(), 0.0f, update)) {
      ++refused;
      EXPECT_EQ(Bytes(*store, row), before);
    }
    EXPECT_LE(WeightsOf(*store, row)[36], kTight);
    EXPECT_TRUE(store->SetRecord(row, Bytes(*store, row), kTight).ok());
  }
  EXPECT_GT(refused, 20);
  EXPECT_LT(refused, 90);
}

TEST(ShortRowTest, BadRecordsAreRefused) {
  auto store = MakeStore(ShortTable(RowPrecision::kBf16));
  const LocalRow row(2);
  const std::vector<char> before = Bytes(*store, row);
  const auto error = [&](int64_t place, uint16_t bits) {
    std::vector<char> record = before;
    std::memcpy(record.data() + place, &bits, sizeof(bits));
    const absl::Status status = store->SetRecord(row, record, kBound);
    EXPECT_EQ(Bytes(*store, row), before);
    return std::string(status.message());
  };
  EXPECT_THAT(error(0, 0x7f80), HasSubstr("not finite"));
  EXPECT_THAT(error(72, 0x4700), HasSubstr("beyond 10000"));  // weight 36 of 37: 32,768
  EXPECT_THAT(error(74, 0x0001), HasSubstr("unused byte"));
  EXPECT_THAT(error(128, 0xffff), HasSubstr("not finite"));  // first moment
  EXPECT_THAT(error(128 + 128 + 72, 0x7f80), HasSubstr("not finite"));
  EXPECT_THAT(std::string(store->SetRecord(row, {before.data(), 64}, kBound).message()),
              HasSubstr("precision"));
}

TEST(RowStoreTest, AnEmptyPartIsFine) {
  auto store = MakeStore(MakeTable(OptimizerKind::kAdam, TableRole::kHead, 1, 4), 1, 2);
  EXPECT_EQ(store->num_rows(), 0);
  EXPECT_EQ(store->memory_bytes(), 0);
  EXPECT_EQ(store->Digest(Parallelism{2}), 0u);
}

}  // namespace
}  // namespace dslide
