#include "client/trainer/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ModelSpec NetworkSpec() {
  ModelSpec spec;
  spec.name = "m";
  TableSpec input;
  input.name = "in";
  input.rows = 10;
  input.dim = 6;
  input.bias_row = true;
  TableSpec dense;
  dense.name = "dense";
  dense.role = TableRole::kDense;
  dense.rows = 5;
  dense.dim = 6;
  TableSpec head;
  head.name = "out";
  head.role = TableRole::kHead;
  head.rows = 20;
  head.dim = 5;
  spec.tables = {input, dense, head};
  return spec;
}

std::vector<float> Random(size_t n, uint64_t seed) {
  CounterRng rng(seed);
  std::vector<float> values(n);
  for (float& value : values) value = rng.NextGaussian();
  return values;
}

TEST(NetworkTest, CountsParametersAndDenseBytes) {
  const auto network = Network::Create(NetworkSpec());
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->num_features(), 9);
  EXPECT_EQ(network->parameters(), 10 * 6 + 5 * (6 + 1) + 20 * (5 + 1));
  EXPECT_EQ(network->dense_bytes_per_step(), 2 * 4 * network->parameters());
}

TEST(NetworkTest, RefusesAModelWithoutAHead) {
  ModelSpec spec = NetworkSpec();
  spec.tables.pop_back();
  EXPECT_FALSE(Network::Create(spec).ok());
  spec = NetworkSpec();
  std::swap(spec.tables[0], spec.tables[2]);
  EXPECT_FALSE(Network::Create(spec).ok());
}

TEST(NetworkTest, HashesOnlyWhenTheHeadDoes) {
  ModelSpec spec = NetworkSpec();
  EXPECT_NE(Network::Create(spec)->hash_family(), nullptr);
  spec.tables[2].head.max_active = 0;
  EXPECT_EQ(Network::Create(spec)->hash_family(), nullptr);
}

TEST(JoinDenseLayerTest, EveryRowMustComeOnce) {
  const TableSpec table = NetworkSpec().tables[1];
  RowBlock even;
  even.dim = 6;
  RowBlock odd = even;
  for (uint32_t row = 0; row < 5; ++row) {
    RowBlock& part = row % 2 == 0 ? even : odd;
    part.rows.emplace_back(row);
    part.biases.push_back(static_cast<float>(row));
    part.values.insert(part.values.end(), 6, static_cast<float>(10 * row));
  }
  const std::vector<const RowBlock*> parts = {&even, &odd};
  const auto layer = JoinDenseLayer(table, parts);
  ASSERT_TRUE(layer.ok()) << layer.status();
  EXPECT_EQ(layer->biases, (std::vector<float>{0, 1, 2, 3, 4}));
  EXPECT_EQ(layer->weights[3 * 6 + 2], 30);
  const std::vector<const RowBlock*> half = {&even};
  EXPECT_EQ(JoinDenseLayer(table, half).status().code(), absl::StatusCode::kInternal);
}

// d/dx of sum(c * DenseForward(x)) by central differences. The function is linear in each argument:
// the difference is exact but for rounding of order u * |y| / h, here below 1e-3.
TEST(DenseLayerTest, BackwardAgreesWithFiniteDifferences) {
  constexpr int64_t kBatch = 7;
  DenseLayer layer{6, 5, Random(30, 1), Random(5, 2)};
  std::vector<float> x = Random(kBatch * 6, 3);
  const std::vector<float> dy = Random(kBatch * 5, 4);
  const auto loss = [&] {
    const std::vector<float> y = DenseForward(layer, x, kBatch, {1});
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += double{y[i]} * double{dy[i]};
    return sum;
  };
  std::vector<float> dx;
  const RowBlock gradients = DenseBackward(layer, x, dy, kBatch, {2}, dx);
  constexpr float kStep = 1e-2f;
  const auto check = [&](float& value, float expected) {
    const float before = value;
    value = before + kStep;
    const double up = loss();
    value = before - kStep;
    const double down = loss();
    value = before;
    EXPECT_NEAR((up - down) / (2 * double{kStep}), expected, 2e-3);
  };
  for (size_t i = 0; i < x.size(); ++i) check(x[i], dx[i]);
  for (size_t i = 0; i < layer.weights.size(); ++i) check(layer.weights[i], gradients.values[i]);
  for (size_t i = 0; i < layer.biases.size(); ++i) check(layer.biases[i], gradients.biases[i]);
}

TEST(DenseLayerTest, ThreadsDoNotChangeABit) {
  constexpr int64_t kBatch = 65;
  const DenseLayer layer{6, 5, Random(30, 1), Random(5, 2)};
  const std::vector<float> x = Random(kBatch * 6, 3);
  const std::vector<float> dy = Random(kBatch * 5, 4);
  std::vector<float> dx_1;
  std::vector<float> dx_3;
  EXPECT_EQ(DenseForward(layer, x, kBatch, {1}), DenseForward(layer, x, kBatch, {3}));
  EXPECT_EQ(DenseBackward(layer, x, dy, kBatch, {1}, dx_1).values,
            DenseBackward(layer, x, dy, kBatch, {3}, dx_3).values);
  EXPECT_EQ(dx_1, dx_3);
}

TEST(ActivateTest, DropoutIsAFunctionOfThePointNotOfItsPlace) {
  const std::vector<int64_t> points = {100, 7};
  const std::vector<int64_t> swapped = {7, 100};
  HiddenDropout dropout{0.5, 9, 2, points};
  std::vector<float> a(2 * 64, 1.0f);
  std::vector<float> b = a;
  Activate(KeptUnits(dropout, 0, 64, {1}), 0.5, 64, false, {1}, a);
  dropout.points = swapped;
  Activate(KeptUnits(dropout, 0, 64, {2}), 0.5, 64, false, {2}, b);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 64, b.begin() + 64));
  EXPECT_TRUE(std::equal(a.begin() + 64, a.end(), b.begin()));
  int64_t kept = 0;
  for (const float value : a) {
    EXPECT_TRUE(value == 0.0f || value == 2.0f);
    kept += value > 0 ? 1 : 0;
  }
  EXPECT_GT(kept, 40);
  EXPECT_LT(kept, 88);
  std::vector<float> next_epoch(2 * 64, 1.0f);
  dropout.epoch = 3;
  Activate(KeptUnits(dropout, 0, 64, {1}), 0.5, 64, false, {1}, next_epoch);
  EXPECT_NE(next_epoch, b);
}

TEST(ActivateTest, KeptUnitsAreThoseThatDropoutLeaves) {
  constexpr int64_t kWidth = 13;
  const std::vector<int64_t> points = {100, 7, 3};
  for (const int64_t layer : {0, 1}) {
    const HiddenDropout dropout{0.4, 9, 2, points};
    std::vector<float> x(3 * kWidth, 1.0f);
    const std::vector<uint8_t> kept = KeptUnits(dropout, layer, kWidth, {2});
    Activate(kept, dropout.probability, kWidth, false, {1}, x);
    ASSERT_EQ(kept.size(), 6u);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t unit = i % kWidth;
      EXPECT_EQ(kept[i / kWidth * 2 + unit / 8] >> (unit % 8) & 1, x[i] > 0 ? 1 : 0) << i;
    }
    EXPECT_EQ(kept[1] >> 5, 0) << "behind the last unit";
  }
  EXPECT_TRUE(KeptUnits({.points = points}, 0, kWidth, {1}).empty());
}

TEST(ActivateTest, CutsNegativesAndRounds) {
  std::vector<float> x = {-1.0f, 1.00390625f, 0.0f};  // 1 + 2^-8 is halfway: rounds to even
  Activate({}, 0, 3, true, {1}, x);
  EXPECT_EQ(x, (std::vector<float>{0.0f, 1.0f, 0.0f}));
}

TEST(MaskGradientTest, FollowsTheActivation) {
  std::vector<float> gradient = {1, 1, -2};
  MaskGradient(std::vector<float>{0.0f, 3.0f, 1.0f}, 0.5, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{0, 2, -4}));
}

}  // namespace
}  // namespace dslide
