// Whole training runs over the real tables: against a dense reference, over threads, over shards.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/reference/model_reference.h"
#include "tests/reference/model_samples.h"
#include "tests/reference/model_sharded_network.h"

namespace dslide {
namespace {

using reference::ModelShape;
using reference::Network;
using reference::Sample;
using reference::ShardedNetwork;

constexpr int64_t kStepSamples = 16;

ModelShape TrainingShape(OptimizerKind optimizer) {
  ModelShape shape;
  shape.features = 40;
  shape.width = 12;
  shape.dense = {10};
  shape.labels = 50;
  shape.optimizer = optimizer;
  shape.learning_rate = optimizer == OptimizerKind::kSgd ? 2.0 : 0.02;
  return shape;
}

// Batches repeat, so that there is something to learn.
std::vector<Sample> BatchOfStep(const ModelShape& shape, int64_t step) {
  return reference::MakeSamples(shape, kStepSamples, 100 + step % 5);
}

class DenseTrainingTest : public testing::TestWithParam<std::tuple<OptimizerKind, HeadLoss>> {};

TEST_P(DenseTrainingTest, FiftyStepsWithAllRowsEqualADenseImplementation) {
  ModelShape shape = TrainingShape(std::get<0>(GetParam()));
  shape.loss = std::get<1>(GetParam());
  const OptimizerSpec defaults;
  ShardedNetwork real(reference::MakeSpec(shape), {1.0, 2.0}, 1);
  Network network = real.Weights();
  reference::Adam adam(network, shape.learning_rate, defaults.beta1, defaults.beta2,
                       defaults.epsilon);
  double first = 0.0;
  double last = 0.0;
  for (int64_t step = 0; step < 50; ++step) {
    std::vector<Sample> samples = BatchOfStep(shape, step);
    const double loss = real.Step(samples, step, 1.0 / kStepSamples);
    reference::UseAllRows(shape.labels, samples);
    const double expected = reference::Loss(network, samples, 1.0 / kStepSamples);
    ASSERT_NEAR(loss, expected, 1e-4 * expected) << "step " << step;
    const Network gradient = reference::Gradient(network, samples, 1.0 / kStepSamples);
    if (shape.optimizer == OptimizerKind::kSgd) {
      reference::SgdUpdate(gradient, shape.learning_rate, network);
    } else {
      adam.Update(gradient, reference::TouchedBy(network, samples), network);
    }
    (step == 0 ? first : last) = loss;
  }
  EXPECT_LT(last, 0.9 * first) << "nothing was learned";
}

INSTANTIATE_TEST_SUITE_P(Kinds, DenseTrainingTest,
                         testing::Combine(testing::Values(OptimizerKind::kSgd,
                                                          OptimizerKind::kAdam),
                                          testing::Values(HeadLoss::kSoftmax, HeadLoss::kSigmoid)));

class ShardCountTest : public testing::TestWithParam<std::vector<double>> {};

TEST_P(ShardCountTest, AHundredStepsWithAllRowsHaveTheLossesOfOneShard) {
  const ModelShape shape = TrainingShape(OptimizerKind::kAdam);
  ShardedNetwork one(reference::MakeSpec(shape), {1.0}, 1);
  ShardedNetwork many(reference::MakeSpec(shape), GetParam(), 1);
  EXPECT_EQ(one.Digest(), many.Digest()) << "first rows depend on the shards";
  for (int64_t step = 0; step < 100; ++step) {
    const std::vector<Sample> samples = BatchOfStep(shape, step);
    const double expected = one.Step(samples, step, 1.0 / kStepSamples);
    ASSERT_NEAR(many.Step(samples, step, 1.0 / kStepSamples), expected, 1e-5 * expected)
        << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Splits, ShardCountTest,
                         testing::Values(std::vector<double>{1, 1}, std::vector<double>{5, 1},
                                         std::vector<double>{1, 1, 1, 1, 1},
                                         std::vector<double>{4, 1, 2, 0.5, 3}));

struct ThreadCase {
  HeadLoss loss;
  int64_t max_active;
  int64_t tail_rows;
};

class ThreadCountTest : public testing::TestWithParam<ThreadCase> {};

TEST_P(ThreadCountTest, EqualBitsForAnyNumberOfThreads) {
  ModelShape shape = TrainingShape(OptimizerKind::kAdam);
  shape.labels = 3000;  // enough for several grains of every parallel loop
  shape.features = 500;
  shape.loss = GetParam().loss;
  shape.max_active = GetParam().max_active;
  shape.tail_rows = GetParam().tail_rows;
  std::vector<uint64_t> digests;
  std::vector<double> losses;
  for (const int threads : {1, 2, 4}) {
    ShardedNetwork network(reference::MakeSpec(shape), {1.0, 2.0}, threads);
    double loss = 0.0;
    for (int64_t step = 0; step < 7; ++step) {
      loss += network.Step(reference::MakeSamples(shape, 100, step), step, 0.01);
    }
    digests.push_back(network.Digest());
    losses.push_back(loss);
  }
  EXPECT_THAT(digests, testing::Each(digests[0]));
  EXPECT_THAT(losses, testing::Each(losses[0]));
}

INSTANTIATE_TEST_SUITE_P(Heads, ThreadCountTest,
                         testing::Values(ThreadCase{HeadLoss::kSoftmax, 0, 0},
                                         ThreadCase{HeadLoss::kSoftmax, 40, 0},
                                         ThreadCase{HeadLoss::kSoftmax, 40, 64},
                                         ThreadCase{HeadLoss::kSigmoid, 40, 64}));

ModelSpec InPrecision(const ModelShape& shape, RowPrecision precision) {
  ModelSpec spec = reference::MakeSpec(shape);
  for (TableSpec& table : spec.tables) table.precision = precision;
  return spec;
}

class ShortRowTrainingTest : public testing::TestWithParam<RowPrecision> {};

// With small steps, so that rounding to nearest would stop the training: an update of about 1e-3
// against weights of 0.3, whose bf16 neighbours are 2e-3 apart.
TEST_P(ShortRowTrainingTest, ReachesNearlyTheLossOfF32) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdam, OptimizerKind::kAdagrad, OptimizerKind::kRowWiseAdagrad}) {
    ModelShape shape = TrainingShape(kind);
    shape.learning_rate = kind == OptimizerKind::kAdam ? 0.002 : 0.02;
    ShardedNetwork full(reference::MakeSpec(shape), {1.0}, 1);
    ShardedNetwork brief(InPrecision(shape, GetParam()), {1.0}, 1);
    double first = 0.0;
    double wanted = 0.0;
    double reached = 0.0;
    for (int64_t step = 0; step < 400; ++step) {
      const std::vector<Sample> samples = BatchOfStep(shape, step);
      const double loss = full.Step(samples, step, 1.0 / kStepSamples);
      const double other = brief.Step(samples, step, 1.0 / kStepSamples);
      if (step == 0) first = loss;
      if (step >= 395) {  // one round of the five batches
        wanted += loss / 5.0;
        reached += other / 5.0;
      }
    }
    EXPECT_LT(wanted, 0.8 * first) << "nothing was learned";
    // Within a tenth of what was learned.
    EXPECT_LT(reached, wanted + 0.1 * (first - wanted)) << "optimizer " << static_cast<int>(kind);
  }
}

TEST_P(ShortRowTrainingTest, EqualBitsForAnyNumberOfThreads) {
  ModelShape shape = TrainingShape(OptimizerKind::kAdam);
  shape.labels = 3000;
  shape.features = 500;
  shape.max_active = 40;
  shape.tail_rows = 64;
  std::vector<uint64_t> digests;
  for (const int threads : {1, 2, 4}) {
    ShardedNetwork network(InPrecision(shape, GetParam()), {1.0, 2.0}, threads);
    for (int64_t step = 0; step < 7; ++step) {
      network.Step(reference::MakeSamples(shape, 100, step), step, 0.01);
    }
    digests.push_back(network.Digest());
  }
  EXPECT_THAT(digests, testing::Each(digests[0]));
}

TEST_P(ShortRowTrainingTest, ShardsChangeNothingButTheOrderOfSums) {
  const ModelShape shape = TrainingShape(OptimizerKind::kAdam);
  ShardedNetwork one(InPrecision(shape, GetParam()), {1.0}, 1);
  ShardedNetwork many(InPrecision(shape, GetParam()), {4, 1, 2}, 1);
  EXPECT_EQ(one.Digest(), many.Digest()) << "first rows depend on the shards";
  // The first step's hidden sums have one order on one shard and another on three; a last bit may
  // then round a weight the other way, so losses agree to a bf16 number's precision only.
  for (int64_t step = 0; step < 30; ++step) {
    const std::vector<Sample> samples = BatchOfStep(shape, step);
    const double expected = one.Step(samples, step, 1.0 / kStepSamples);
    ASSERT_NEAR(many.Step(samples, step, 1.0 / kStepSamples), expected, 0.01 * expected) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ShortRowTrainingTest,
                         testing::Values(RowPrecision::kBf16Weights, RowPrecision::kBf16));

TEST(NetworkTest, HashedTrainingLearns) {
  ModelShape shape = TrainingShape(OptimizerKind::kAdam);
  shape.labels = 400;
  shape.max_active = 40;
  shape.tail_rows = 40;
  ShardedNetwork network(reference::MakeSpec(shape), {1.0, 1.0}, 1);
  double first = 0.0;
  double last = 0.0;
  for (int64_t step = 0; step < 150; ++step) {
    const double loss = network.Step(BatchOfStep(shape, step), step, 1.0 / kStepSamples);
    (step == 0 ? first : last) = loss;
  }
  EXPECT_LT(last, 0.3 * first);
}

TEST(NetworkTest, ASampleWithoutLabelsChangesNothingUnderSoftmax) {
  const ModelShape shape = TrainingShape(OptimizerKind::kSgd);
  ShardedNetwork network(reference::MakeSpec(shape), {1.0}, 1);
  Network before = network.Weights();
  std::vector<Sample> samples = reference::MakeSamples(shape, 3, 1);
  for (Sample& sample : samples) sample.labels.clear();
  EXPECT_EQ(network.Step(samples, 0, 1.0), 0.0);
  Network after = network.Weights();
  const auto old_weights = reference::Parameters(before);
  const auto new_weights = reference::Parameters(after);
  for (size_t i = 0; i < old_weights.size(); ++i) ASSERT_EQ(*old_weights[i], *new_weights[i]);
}

TEST(NetworkTest, RefusedRowsKeepTheirBits) {
  ModelShape shape = TrainingShape(OptimizerKind::kAdam);
  ShardedNetwork network(reference::MakeSpec(shape), {1.0}, 1);
  const std::vector<Sample> samples = BatchOfStep(shape, 0);
  network.Step(samples, 0, 1.0);
  const uint64_t head_digest = network.head(0).store().Digest(Parallelism{1});
  network.Forward(samples, 1, 1.0);
  std::vector<float> hidden_gradient(samples.size() * network.hidden()[0].size());
  // An absurd scale makes every gradient of a head row infinite or beyond the bound.
  const int64_t refused = network.head(0).Backward(network.context(0), network.log_partitions(),
                                                   std::numeric_limits<float>::max(), 1e4f,
                                                   Parallelism{2}, absl::MakeSpan(hidden_gradient));
  EXPECT_EQ(refused, shape.labels);
  EXPECT_EQ(network.head(0).store().Digest(Parallelism{1}), head_digest);
}

}  // namespace
}  // namespace dslide
