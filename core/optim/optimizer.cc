#include "core/optim/optimizer.h"

#include <cassert>
#include <cfloat>
#include <cmath>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/math/kernels.h"
#include "core/optim/power_table.h"

namespace dslide {
namespace {

// base^n by squaring: equal bits everywhere, which std::pow does not promise.
double IntegerPower(double base, int64_t n) {
  double result = 1.0;
  for (; n > 0; n >>= 1, base *= base) {
    if ((n & 1) != 0) result *= base;
  }
  return result;
}

// The nearest float, or 0 below the normal numbers: arithmetic on subnormal numbers is slow, and
// what they would add is nothing.
float ToNormalFloat(double x) {
  return std::fabs(x) < double{FLT_MIN} ? 0.0f : static_cast<float>(x);
}

// The settings and the arithmetic that all optimizers share.
class ScheduledOptimizer : public Optimizer {
 public:
  explicit ScheduledOptimizer(const OptimizerSpec& spec) : spec_(spec) {}

 protected:
  const OptimizerSpec& spec() const { return spec_; }

  double RateAt(Step step) const { return LearningRateAt(spec_, step); }

  // What weight decay leaves of a weight after `elapsed` steps, each at the present rate.
  float Keep(double rate, int64_t elapsed) const {
    if (spec_.weight_decay == 0.0) return 1.0f;
    return static_cast<float>(IntegerPower(1.0 - rate * spec_.weight_decay, elapsed));
  }

 private:
  const OptimizerSpec spec_;
};

// Steps covered by an update: the present one and those missed before it.
int64_t ElapsedSteps(Step step, Step last_step) {
  assert(step > last_step);
  return step.value() - last_step.value();
}

class Sgd final : public ScheduledOptimizer {
 public:
  using ScheduledOptimizer::ScheduledOptimizer;

  int64_t state_vectors() const override { return 0; }
  int64_t bias_state_floats() const override { return 0; }
  int64_t row_state_floats() const override { return 0; }

  void Apply(const RowView& row, const float* gradient, float bias_gradient, int64_t dim,
             int64_t /*stride*/, Step step, Step last_step) const override {
    const double rate = RateAt(step);
    const float keep = Keep(rate, ElapsedSteps(step, last_step));
    SgdUpdate(row.weights, gradient, dim, static_cast<float>(rate), keep);
    if (row.bias != nullptr) *row.bias -= static_cast<float>(rate) * bias_gradient;
  }
};

class Adagrad final : public ScheduledOptimizer {
 public:
  using ScheduledOptimizer::ScheduledOptimizer;

  int64_t state_vectors() const override { return 1; }
  int64_t bias_state_floats() const override { return 1; }
  int64_t row_state_floats() const override { return 0; }

  void Apply(const RowView& row, const float* gradient, float bias_gradient, int64_t dim,
             int64_t /*stride*/, Step step, Step last_step) const override {
    const double rate = RateAt(step);
    const float keep = Keep(rate, ElapsedSteps(step, last_step));
    const float epsilon = static_cast<float>(spec().epsilon);
    AdagradUpdate(row.weights, row.state, gradient, dim, static_cast<float>(rate), epsilon, keep);
    if (row.bias != nullptr) {
      const double sum = *row.bias_state + double{bias_gradient} * bias_gradient;
      *row.bias_state = ToNormalFloat(sum);
      *row.bias -= static_cast<float>(rate * bias_gradient / (std::sqrt(sum) + spec().epsilon));
    }
  }
};

// Adagrad with one accumulator per row: the running sum of the mean squared gradient.
class RowWiseAdagrad final : public ScheduledOptimizer {
 public:
  using ScheduledOptimizer::ScheduledOptimizer;

  int64_t state_vectors() const override { return 0; }
  int64_t bias_state_floats() const override { return 0; }
  int64_t row_state_floats() const override { return 1; }

  void Apply(const RowView& row, const float* gradient, float bias_gradient, int64_t dim,
             int64_t /*stride*/, Step step, Step last_step) const override {
    const double rate = RateAt(step);
    const float keep = Keep(rate, ElapsedSteps(step, last_step));
    float squares = SumOfSquares(gradient, dim);
    int64_t parameters = dim;
    if (row.bias != nullptr) {
      squares += bias_gradient * bias_gradient;
      ++parameters;
    }
    *row.row_state += squares / static_cast<float>(parameters);
    const float row_rate =
        static_cast<float>(rate) / (std::sqrt(*row.row_state) + static_cast<float>(spec().epsilon));
    SgdUpdate(row.weights, gradient, dim, row_rate, keep);
    if (row.bias != nullptr) *row.bias -= row_rate * bias_gradient;
  }
};

class LazyAdam final : public ScheduledOptimizer {
 public:
  explicit LazyAdam(const OptimizerSpec& spec)
      : ScheduledOptimizer(spec), powers1_(spec.beta1), powers2_(spec.beta2) {}

  int64_t state_vectors() const override { return 2; }
  int64_t bias_state_floats() const override { return 2; }
  int64_t row_state_floats() const override { return 0; }

  void Apply(const RowView& row, const float* gradient, float bias_gradient, int64_t dim,
             int64_t stride, Step step, Step last_step) const override {
    const int64_t elapsed = ElapsedSteps(step, last_step);
    const double rate = RateAt(step);
    const AdamFactors factors{
        .decay1 = ToNormalFloat(powers1_.Power(elapsed)),
        .decay2 = ToNormalFloat(powers2_.Power(elapsed)),
        .blend1 = static_cast<float>(1.0 - spec().beta1),
        .blend2 = static_cast<float>(1.0 - spec().beta2),
        .correction1 = static_cast<float>(1.0 - powers1_.Power(step.value())),
        .correction2 = static_cast<float>(1.0 - powers2_.Power(step.value())),
        .rate = static_cast<float>(rate),
        .epsilon = static_cast<float>(spec().epsilon),
        .keep = Keep(rate, elapsed),
    };
    AdamUpdate(row.weights, row.state, row.state + stride, gradient, dim, factors);
    if (row.bias != nullptr) UpdateBias(row, bias_gradient, factors);
  }

 private:
  // AdamUpdate() of one number without decay. Calling it would cost more than this arithmetic: 162
  // against 132 ns a row in OptimizerApplyBenchmark/64/3 of bench/micro.
  static void UpdateBias(const RowView& row, double gradient, const AdamFactors& f) {
    const double first = f.decay1 * double{row.bias_state[0]} + f.blend1 * gradient;
    const double second = f.decay2 * double{row.bias_state[1]} + f.blend2 * gradient * gradient;
    row.bias_state[0] = ToNormalFloat(first);
    row.bias_state[1] = ToNormalFloat(second);
    const double scale = std::sqrt(second / f.correction2) + f.epsilon;
    *row.bias -= static_cast<float>(f.rate * first / (f.correction1 * scale));
  }

  const PowerTable powers1_;  // of beta1
  const PowerTable powers2_;  // of beta2
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(const OptimizerSpec& spec) {
  RETURN_IF_ERROR(spec.Validate());
  std::unique_ptr<Optimizer> optimizer;
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      optimizer = std::make_unique<Sgd>(spec);
      break;
    case OptimizerKind::kAdagrad:
      optimizer = std::make_unique<Adagrad>(spec);
      break;
    case OptimizerKind::kRowWiseAdagrad:
      optimizer = std::make_unique<RowWiseAdagrad>(spec);
      break;
    case OptimizerKind::kAdam:
      optimizer = std::make_unique<LazyAdam>(spec);
      break;
  }
  if (optimizer == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.kind is ", static_cast<int>(spec.kind), ", which names no optimizer"));
  }
  return optimizer;
}

}  // namespace dslide
