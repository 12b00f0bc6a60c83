#include "core/engine/optim/optimizer.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/system/aligned_buffer.h"
#include "gtest/gtest.h"
#include "tests/reference/optim_reference.h"

namespace dslide {
namespace {

constexpr int64_t kOptimizerDim = 37;
constexpr int64_t kStride = 48;

// A row's memory, laid out with a stride wider than dim.
class TestRow {
 public:
  TestRow(const Optimizer& optimizer, bool has_bias, uint64_t seed)
      : has_bias_(has_bias),
        weights_(AlignedBuffer::Create(kStride).value()),
        state_(AlignedBuffer::Create(kStride * optimizer.state_vectors()).value()),
        bias_state_(static_cast<size_t>(optimizer.bias_state_floats())),
        row_state_(static_cast<size_t>(optimizer.row_state_floats())) {
    CounterRng rng(seed);
    for (int64_t i = 0; i < kOptimizerDim; ++i) weights_.data()[i] = rng.NextGaussian();
    bias_ = rng.NextGaussian();
  }

  RowView View() {
    return {.weights = weights_.data(),
            .state = state_.size() == 0 ? nullptr : state_.data(),
            .bias = has_bias_ ? &bias_ : nullptr,
            .bias_state = has_bias_ && !bias_state_.empty() ? bias_state_.data() : nullptr,
            .row_state = row_state_.empty() ? nullptr : row_state_.data()};
  }

  reference::Row ToReference() const {
    reference::Row row;
    for (int64_t i = 0; i < kOptimizerDim; ++i)
      row.parameters.push_back({.weight = weights_.data()[i]});
    if (has_bias_) row.parameters.push_back({.weight = bias_, .decays = false});
    return row;
  }

  // Weight i, or the bias for i == kOptimizerDim.
  float Weight(size_t i) const { return i == kOptimizerDim ? bias_ : weights_.data()[i]; }
  // State vector `vector` of weight i, or of the bias.
  float State(int64_t vector, size_t i) const {
    return i == kOptimizerDim ? bias_state_[vector] : state_.data()[vector * kStride + i];
  }
  float RowState() const { return row_state_[0]; }
  // Floats between dim and stride must never be written.
  bool PaddingIsZero() const {
    for (int64_t i = 0; i < state_.size(); ++i) {
      if (i % kStride >= kOptimizerDim && state_.data()[i] != 0.0f) return false;
    }
    for (int64_t i = kOptimizerDim; i < kStride; ++i) {
      if (weights_.data()[i] != 0.0f) return false;
    }
    return true;
  }

 private:
  const bool has_bias_;
  AlignedBuffer weights_;
  AlignedBuffer state_;
  float bias_ = 0.0f;
  std::vector<float> bias_state_;
  std::vector<float> row_state_;
};

// Applies one update in place.
void ApplySteps(const Optimizer& optimizer, TestRow& row, const AlignedBuffer& gradient, float bias,
                Step step, Step last_step) {
  const RowShape shape{.dim = kOptimizerDim, .stride = kStride, .magnitude_bound = 1e30f};
  const RowView view = row.View();
  EXPECT_TRUE(optimizer.Apply(optimizer.BeginStep(step, std::nullopt), shape,
                              {.weights = gradient.data(), .bias = bias, .last_step = last_step},
                              view.AsSource(), view));
}

struct OptimizerCase {
  std::string name;
  OptimizerSpec spec;
  bool has_bias = true;
};

// Touched in some steps only: runs, gaps of one, and a gap longer than a table's digit.
bool IsTouched(int64_t step) { return step < 6 || step % 3 == 0 || step > 100; }
bool IsInLongGap(int64_t step) { return step > 20 && step < 100; }

class OptimizerTest : public testing::TestWithParam<OptimizerCase> {
 protected:
  void SetUp() override { optimizer_ = Optimizer::Create(GetParam().spec).value(); }

  std::unique_ptr<Optimizer> optimizer_;
};

TEST_P(OptimizerTest, EqualsTheDenseReferenceOnAPatternOfTouches) {
  const OptimizerSpec& spec = GetParam().spec;
  const bool has_bias = GetParam().has_bias;
  TestRow row(*optimizer_, has_bias, 5);
  reference::Row expected = row.ToReference();
  AlignedBuffer gradient = AlignedBuffer::Create(kStride).value();
  CounterRng rng(6);
  int64_t last = 0;
  for (int64_t step = 1; step <= 130; ++step) {
    if (!IsTouched(step) || IsInLongGap(step)) continue;
    // Missed steps shrink the weights at the rate of the update that makes up for them.
    const double rate = reference::LearningRate(spec, step);
    for (int64_t missed = last + 1; missed < step; ++missed) {
      reference::MissedStep(spec, rate, &expected);
    }
    std::vector<double> gradients;
    for (size_t i = 0; i < expected.parameters.size(); ++i) {
      gradients.push_back(static_cast<float>(rng.NextGaussian()));
    }
    for (int64_t i = 0; i < kOptimizerDim; ++i)
      gradient.data()[i] = static_cast<float>(gradients[i]);
    const float bias_gradient = has_bias ? static_cast<float>(gradients.back()) : std::nanf("");
    reference::DenseStep(spec, step, gradients, &expected);
    ApplySteps(*optimizer_, row, gradient, bias_gradient, Step(step), Step(last));
    last = step;
    for (size_t i = 0; i < expected.parameters.size(); ++i) {
      const reference::Parameter& p = expected.parameters[i];
      ASSERT_NEAR(row.Weight(i), p.weight, 2e-5) << "step " << step << " parameter " << i;
      if (optimizer_->state_vectors() > 0) {
        ASSERT_NEAR(row.State(0, i), p.first, 2e-5 * (1 + std::fabs(p.first)));
      }
      if (optimizer_->state_vectors() > 1) {
        ASSERT_NEAR(row.State(1, i), p.second, 2e-5 * (1 + p.second));
      }
    }
    if (optimizer_->row_state_floats() > 0) {
      ASSERT_NEAR(row.RowState(), expected.row_state, 2e-5 * (1 + expected.row_state));
    }
  }
  EXPECT_TRUE(row.PaddingIsZero());
}

TEST_P(OptimizerTest, StateSizesAreAsDocumented) {
  struct Sizes {
    int64_t vectors, bias, row;
  };
  const Sizes sizes = [&]() -> Sizes {
    switch (GetParam().spec.kind) {
      case OptimizerKind::kSgd:
        return {0, 0, 0};
      case OptimizerKind::kAdagrad:
        return {1, 1, 0};
      case OptimizerKind::kRowWiseAdagrad:
        return {0, 0, 1};
      case OptimizerKind::kAdam:
        return {2, 2, 0};
    }
    return {-1, -1, -1};
  }();
  EXPECT_EQ(optimizer_->state_vectors(), sizes.vectors);
  EXPECT_EQ(optimizer_->bias_state_floats(), sizes.bias);
  EXPECT_EQ(optimizer_->row_state_floats(), sizes.row);
}

TEST_P(OptimizerTest, DescendsAQuadratic) {
  TestRow row(*optimizer_, GetParam().has_bias, 7);
  AlignedBuffer gradient = AlignedBuffer::Create(kStride).value();
  const auto loss = [&row] {
    double sum = 0.0;
    for (int64_t i = 0; i < kOptimizerDim; ++i) sum += 0.5 * row.Weight(i) * row.Weight(i);
    return sum;
  };
  const double before = loss();
  for (int64_t step = 1; step <= 60; ++step) {
    for (int64_t i = 0; i < kOptimizerDim; ++i) gradient.data()[i] = row.Weight(i);
    ApplySteps(*optimizer_, row, gradient, 0.0f, Step(step), Step(step - 1));
  }
  EXPECT_LT(loss(), 0.5 * before);
}

TEST_P(OptimizerTest, AnEnormousGapLeavesFiniteNumbers) {
  TestRow row(*optimizer_, GetParam().has_bias, 8);
  AlignedBuffer gradient = AlignedBuffer::Create(kStride).value();
  for (int64_t i = 0; i < kOptimizerDim; ++i) gradient.data()[i] = 1.0f;
  ApplySteps(*optimizer_, row, gradient, 1.0f, Step(1), Step(0));
  ApplySteps(*optimizer_, row, gradient, 1.0f, Step(int64_t{1} << 40), Step(1));
  for (int64_t i = 0; i < kOptimizerDim; ++i) {
    ASSERT_TRUE(std::isfinite(row.Weight(i)));
    for (int64_t vector = 0; vector < optimizer_->state_vectors(); ++vector) {
      ASSERT_TRUE(std::isfinite(row.State(vector, i)));
    }
  }
}

OptimizerSpec MakeOptimizer(OptimizerKind kind, double rate, double weight_decay = 0.0,
                            ScheduleSpec schedule = {}) {
  OptimizerSpec spec;
  spec.kind = kind;
  spec.learning_rate = rate;
  spec.weight_decay = weight_decay;
  spec.schedule = schedule;
  return spec;
}

const ScheduleSpec kCosine = {
    .kind = ScheduleKind::kCosine, .warmup_steps = 10, .decay_steps = 90, .final_fraction = 0.1};

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerTest,
    testing::Values(
        OptimizerCase{"Sgd", MakeOptimizer(OptimizerKind::kSgd, 0.05)},
        OptimizerCase{"SgdDecay", MakeOptimizer(OptimizerKind::kSgd, 0.05, 0.1)},
        OptimizerCase{"Adagrad", MakeOptimizer(OptimizerKind::kAdagrad, 0.3)},
        OptimizerCase{"AdagradDecayCosine",
                      MakeOptimizer(OptimizerKind::kAdagrad, 0.3, 0.05, kCosine)},
        OptimizerCase{"RowWise", MakeOptimizer(OptimizerKind::kRowWiseAdagrad, 0.3)},
        OptimizerCase{"RowWiseNoBias", MakeOptimizer(OptimizerKind::kRowWiseAdagrad, 0.3), false},
        OptimizerCase{"RowWiseDecay", MakeOptimizer(OptimizerKind::kRowWiseAdagrad, 0.3, 0.05)},
        OptimizerCase{"Adam", MakeOptimizer(OptimizerKind::kAdam, 0.02)},
        OptimizerCase{"AdamNoBias", MakeOptimizer(OptimizerKind::kAdam, 0.02), false},
        OptimizerCase{"AdamDecayCosine", MakeOptimizer(OptimizerKind::kAdam, 0.05, 0.1, kCosine)}),
    [](const testing::TestParamInfo<OptimizerCase>& info) { return info.param.name; });

// A dense Adam moves a weight in every step; the lazy one only when touched. With a gradient in
// every step they are the same optimizer.
TEST(LazyAdamTest, EqualsDenseAdamWhenTouchedInEveryStep) {
  const OptimizerSpec spec = MakeOptimizer(OptimizerKind::kAdam, 0.01, 0.01);
  const auto optimizer = Optimizer::Create(spec).value();
  TestRow row(*optimizer, true, 9);
  reference::Row expected = row.ToReference();
  AlignedBuffer gradient = AlignedBuffer::Create(kStride).value();
  CounterRng rng(10);
  for (int64_t step = 1; step <= 200; ++step) {
    std::vector<double> gradients(kOptimizerDim + 1);
    for (double& g : gradients) g = rng.NextGaussian();
    for (int64_t i = 0; i < kOptimizerDim; ++i)
      gradient.data()[i] = static_cast<float>(gradients[i]);
    reference::DenseStep(spec, step, gradients, &expected);
    ApplySteps(*optimizer, row, gradient, static_cast<float>(gradients[kOptimizerDim]), Step(step),
               Step(step - 1));
  }
  for (size_t i = 0; i <= kOptimizerDim; ++i) {
    EXPECT_NEAR(row.Weight(i), expected.parameters[i].weight, 2e-5);
  }
}

// The lazy moments after a gap are those of a dense Adam that saw gradient 0 in the gap.
TEST(LazyAdamTest, MomentsEqualThoseOfDenseAdamWithZeroGradients) {
  const OptimizerSpec spec = MakeOptimizer(OptimizerKind::kAdam, 0.01);
  const auto optimizer = Optimizer::Create(spec).value();
  TestRow row(*optimizer, true, 11);
  reference::Row expected = row.ToReference();
  AlignedBuffer gradient = AlignedBuffer::Create(kStride).value();
  CounterRng rng(12);
  int64_t last = 0;
  for (int64_t step = 1; step <= 60; ++step) {
    std::vector<double> gradients(kOptimizerDim + 1, 0.0);
    if (step % 7 == 2 || step == 60) {
      for (double& g : gradients) g = static_cast<float>(rng.NextGaussian());
      for (int64_t i = 0; i < kOptimizerDim; ++i)
        gradient.data()[i] = static_cast<float>(gradients[i]);
      ApplySteps(*optimizer, row, gradient, static_cast<float>(gradients[kOptimizerDim]),
                 Step(step), Step(last));
      last = step;
    }
    reference::DenseStep(spec, step, gradients, &expected);
  }
  for (size_t i = 0; i <= kOptimizerDim; ++i) {
    EXPECT_NEAR(row.State(0, i), expected.parameters[i].first, 1e-6);
    EXPECT_NEAR(row.State(1, i), expected.parameters[i].second, 1e-6);
  }
}

}  // namespace
}  // namespace dslide
