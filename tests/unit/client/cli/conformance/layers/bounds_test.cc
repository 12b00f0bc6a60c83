#include "client/cli/conformance/layers/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/base/counter_rng.h"

namespace dslide::cli {
namespace {

constexpr int64_t kSamples = 9;
constexpr int64_t kIn = 7;
constexpr int64_t kOut = 5;

std::vector<float> UnitNumbers(uint64_t key, int64_t size) {
  CounterRng rng(key);
  std::vector<float> numbers;
  for (int64_t i = 0; i < size; ++i) numbers.push_back(2 * rng.NextUniform() - 1);
  return numbers;
}

DenseLayer RandomLayer() {
  DenseLayer layer;
  layer.in = kIn;
  layer.out = kOut;
  layer.weights = UnitNumbers(1, kIn * kOut);
  layer.biases = UnitNumbers(2, kOut);
  return layer;
}

// Every number is inside; one that is off by a thousandth is not.
void ExpectAround(const Bounds& bounds, const std::vector<float>& numbers) {
  ASSERT_EQ(bounds.size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_LE(bounds[i].low, numbers[i]) << i;
    EXPECT_GE(bounds[i].high, numbers[i]) << i;
    if (numbers[i] == 0) continue;
    EXPECT_LT(bounds[i].high - bounds[i].low, 1e-3 * std::max(1e-2f, std::abs(numbers[i]))) << i;
  }
}

TEST(BoundsTest, SumsOfPartsHoldEveryOrder) {
  std::vector<MatrixReply> parts(3);
  for (size_t s = 0; s < parts.size(); ++s) {
    parts[s].rows = 1;
    parts[s].cols = 40;
    parts[s].data = UnitNumbers(10 + s, 40);
  }
  const Bounds bounds = SumBounds(parts);
  std::vector<float> forward;
  std::vector<float> backward;
  for (size_t i = 0; i < 40; ++i) {
    forward.push_back(parts[0].data[i] + parts[1].data[i] + parts[2].data[i]);
    backward.push_back(parts[2].data[i] + parts[1].data[i] + parts[0].data[i]);
  }
  ExpectAround(bounds, forward);
  ExpectAround(bounds, backward);
}

TEST(BoundsTest, DenseLayersHoldWhatTheTrainerComputes) {
  const DenseLayer layer = RandomLayer();
  const std::vector<float> x = UnitNumbers(3, kSamples * kIn);
  const std::vector<float> dy = UnitNumbers(4, kSamples * kOut);
  ExpectAround(DenseBounds(layer, Exactly(x)), DenseForward(layer, x, kSamples, Parallelism{1}));
  std::vector<float> dx;
  const RowBlock all = DenseBackward(layer, x, dy, kSamples, Parallelism{1}, dx);
  const DenseGradientBounds gradients = GradientBounds(layer, Exactly(x), Exactly(dy));
  ExpectAround(gradients.weights, all.values);
  ExpectAround(gradients.biases, all.biases);
  ExpectAround(BelowBounds(layer, Exactly(dy)), dx);
}

TEST(BoundsTest, DropoutAndItsGradientsAreThoseOfTheTrainer) {
  const std::vector<int64_t> points = {5, 0, 17, 3, 4, 8, 9, 2, 1};
  const HiddenDropout dropout = {.probability = 0.3, .seed = 11, .epoch = 2, .points = points};
  std::vector<float> x = UnitNumbers(5, kSamples * kIn);
  Bounds bounds = Exactly(x);
  Activate(KeptUnits(dropout, 1, kIn, Parallelism{1}), dropout.probability, kIn, /*round=*/false,
           Parallelism{1}, x);
  ActivateBounds(dropout, 1, kIn, bounds);
  ExpectAround(bounds, x);
  std::vector<float> gradient = UnitNumbers(6, kSamples * kIn);
  Bounds wanted = Exactly(gradient);
  MaskGradient(x, dropout.probability, gradient);
  MaskBounds(bounds, dropout.probability, wanted);
  ExpectAround(wanted, gradient);
}

TEST(BoundsTest, AUnitThatMayBeZeroHasEitherGradient) {
  Bounds gradient = {{2, 2}, {-2, -2}, {2, 2}};
  MaskBounds({{0, 1e-9}, {0, 1e-9}, {0, 0}}, 0, gradient);
  EXPECT_EQ(gradient[0].low, 0);
  EXPECT_EQ(gradient[0].high, 2);
  EXPECT_EQ(gradient[1].low, -2);
  EXPECT_EQ(gradient[1].high, 0);
  EXPECT_EQ(gradient[2].high, 0);
}

TEST(BoundsTest, RoundingIsThatOfTheActivations) {
  Bounds bounds = {{1.001, 1.002}};
  RoundBounds(ActivationType::kF32, bounds);
  EXPECT_EQ(bounds[0].low, 1.001);
  Bounds either = bounds;
  MayRoundBounds(ActivationType::kBf16, either);
  EXPECT_EQ(either[0].low, 1);
  EXPECT_EQ(either[0].high, 1.002);
  RoundBounds(ActivationType::kBf16, bounds);
  EXPECT_EQ(bounds[0].low, 1);
  EXPECT_EQ(bounds[0].high, 1);
}

}  // namespace
}  // namespace dslide::cli
