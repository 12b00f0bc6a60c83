// The gradients of the real tables against a reference, and the reference against differences.

#include <cmath>
#include <cstdint>
#include <string>
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

struct NetworkGradientCase {
  std::string name;
  ModelShape shape;
};

std::vector<NetworkGradientCase> Cases() {
  std::vector<NetworkGradientCase> cases;
  for (const HeadLoss loss : {HeadLoss::kSoftmax, HeadLoss::kSigmoid}) {
    const std::string name = loss == HeadLoss::kSoftmax ? "Softmax" : "Sigmoid";
    ModelShape shape;
    shape.loss = loss;
    cases.push_back({name + "AllRows", shape});
    shape.dense = {6, 5};
    cases.push_back({name + "DenseLayersAllRows", shape});
    shape.dense = {};
    shape.max_active = 6;
    cases.push_back({name + "Hashed", shape});
    shape.tail_rows = 9;
    cases.push_back({name + "HashedWithTail", shape});
    shape.dense = {6};
    cases.push_back({name + "DenseLayerHashedWithTail", shape});
    shape.tail_rows = 30;
    cases.push_back({name + "TailOfAllRows", shape});
    shape.tail_rows = 9;
    shape.sampled_candidates = 3;
    cases.push_back({name + "SampledCandidates", shape});
    shape.sampled_candidates = 0;
    shape.named = 6;
    cases.push_back({name + "NamedBesideHashing", shape});
    shape.fingerprints = false;
    cases.push_back({name + "Named", shape});
    shape.max_active = 0;
    cases.push_back({name + "NamedWithoutHashTables", shape});
  }
  return cases;
}

class NetworkGradientTest : public testing::TestWithParam<NetworkGradientCase> {
 protected:
  static ShardedNetwork MakeNetwork(const std::vector<double>& shards) {
    const ModelShape& shape = GetParam().shape;
    ShardedNetwork network(reference::MakeSpec(shape), shards, 1);
    network.set_fingerprints(shape.fingerprints);
    network.set_named(shape.named > 0);
    return network;
  }
};

// Central differences in double precision: error about 1e-16 / 1e-5 + 1e-10.
TEST_P(NetworkGradientTest, ReferenceAgreesWithFiniteDifferences) {
  const ModelShape& shape = GetParam().shape;
  ShardedNetwork real = MakeNetwork({1.0});
  real.Forward(reference::MakeSamples(shape, 12, 3), /*tail_key=*/5, 1.0);
  const std::vector<Sample> samples = real.SamplesWithTerms();
  Network network = real.Weights();
  Network gradient = reference::Gradient(network, samples, 0.5);
  const std::vector<double*> weights = reference::Parameters(network);
  const std::vector<double*> derivatives = reference::Parameters(gradient);
  double largest = 0.0;
  for (size_t i = 0; i < weights.size(); ++i) {
    constexpr double kStep = 1e-5;
    const double old = *weights[i];
    *weights[i] = old + kStep;
    const double above = reference::Loss(network, samples, 0.5);
    *weights[i] = old - kStep;
    const double below = reference::Loss(network, samples, 0.5);
    *weights[i] = old;
    ASSERT_NEAR(*derivatives[i], (above - below) / (2 * kStep), 1e-7) << "parameter " << i;
    largest = std::max(largest, std::abs(*derivatives[i]));
  }
  EXPECT_GT(largest, 0.01) << "a gradient of nothing proves nothing";
}

// Plain SGD at rate 1 moves each weight by its gradient: f32 subtraction of numbers below 2 leaves
// an error of 2^-23, sums of a few hundred products some more.
TEST_P(NetworkGradientTest, TablesMoveByTheReferenceGradient) {
  const ModelShape& shape = GetParam().shape;
  for (const std::vector<double>& shards : {std::vector<double>{1.0}, {2.0, 1.0, 1.0}}) {
    ShardedNetwork real = MakeNetwork(shards);
    const double loss = real.Forward(reference::MakeSamples(shape, 12, 3), /*tail_key=*/5, 0.5);
    const std::vector<Sample> samples = real.SamplesWithTerms();
    Network before = real.Weights();
    EXPECT_NEAR(loss, reference::Loss(before, samples, 0.5), 1e-5 * std::abs(loss));
    EXPECT_EQ(real.Backward(), 0);
    Network after = real.Weights();
    Network gradient = reference::Gradient(before, samples, 0.5);
    const std::vector<double*> old_weights = reference::Parameters(before);
    const std::vector<double*> new_weights = reference::Parameters(after);
    const std::vector<double*> derivatives = reference::Parameters(gradient);
    for (size_t i = 0; i < old_weights.size(); ++i) {
      ASSERT_NEAR(*old_weights[i] - *new_weights[i], *derivatives[i], 4e-6) << "parameter " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, NetworkGradientTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dslide
