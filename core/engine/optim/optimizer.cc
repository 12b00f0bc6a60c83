#include "core/engine/optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/optim/power_table.h"

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
  explicit ScheduledOptimizer(const OptimizerSpec& spec) : Optimizer(spec), spec_(spec) {}

  StepFactors BeginStep(Step step, std::optional<double> rate) const override {
    return {.step = step, .rate = rate.has_value() ? *rate : LearningRateAt(spec_, step)};
  }

 protected:
  const OptimizerSpec& spec() const { return spec_; }

  // What weight decay leaves of a weight after `elapsed` steps, each at the present rate.
  float Keep(double rate, int64_t elapsed) const {
    if (spec_.weight_decay == 0.0) return 1.0f;
    return static_cast<float>(IntegerPower(1.0 - rate * spec_.weight_decay, elapsed));
  }

 private:
  const OptimizerSpec spec_;
};

// Steps covered by an update: the present one and those missed before it.
int64_t ElapsedSteps(const StepFactors& factors, const RowGradient& gradient) {
  assert(factors.step > gradient.last_step);
  return factors.step.value() - gradient.last_step.value();
}

// False for NaN as well.
bool IsWithin(float x, float bound) { return std::fabs(x) <= std::min(bound, FLT_MAX); }

bool BiasIsGood(const RowShape& shape, const RowGradient& gradient, const RowView& to) {
  return IsWithin(gradient.bias, shape.magnitude_bound) &&
         IsWithin(*to.bias, shape.magnitude_bound);
}

class Sgd final : public ScheduledOptimizer {
 public:
  using ScheduledOptimizer::ScheduledOptimizer;

  bool Apply(const StepFactors& factors, const RowShape& shape, const RowGradient& gradient,
             const RowSource& from, const RowView& to) const override {
    const float keep = Keep(factors.rate, ElapsedSteps(factors, gradient));
    const auto rate = static_cast<float>(factors.rate);
    const bool good = SgdUpdate({from.weights, to.weights}, gradient.weights, shape.dim, rate, keep,
                                shape.magnitude_bound);
    if (to.bias == nullptr) return good;
    *to.bias = *from.bias - rate * gradient.bias;
    return good && BiasIsGood(shape, gradient, to);
  }
};

class Adagrad final : public ScheduledOptimizer {
 public:
  using ScheduledOptimizer::ScheduledOptimizer;

  bool Apply(const StepFactors& factors, const RowShape& shape, const RowGradient& gradient,
             const RowSource& from, const RowView& to) const override {
    const double rate = factors.rate;
    const float keep = Keep(rate, ElapsedSteps(factors, gradient));
    const bool good = AdagradUpdate(
        {from.weights, to.weights}, {from.state, to.state}, gradient.weights, shape.dim,
        static_cast<float>(rate), static_cast<float>(spec().epsilon), keep, shape.magnitude_bound);
    if (to.bias == nullptr) return good;
    const double sum = *from.bias_state + double{gradient.bias} * gradient.bias;
    *to.bias_state = ToNormalFloat(sum);
    *to.bias =
        *from.bias - static_cast<float>(rate * gradient.bias / (std::sqrt(sum) + spec().epsilon));
    return good && BiasIsGood(shape, gradient, to) && IsWithin(*to.bias_state, FLT_MAX);
  }
};

// Adagrad with one accumulator per row: the running sum of the mean squared gradient.
class RowWiseAdagrad final : public ScheduledOptimizer {
 public:
  using ScheduledOptimizer::ScheduledOptimizer;

  bool Apply(const StepFactors& factors, const RowShape& shape, const RowGradient& gradient,
             const RowSource& from, const RowView& to) const override {
    const float keep = Keep(factors.rate, ElapsedSteps(factors, gradient));
    float squares = SumOfSquares(gradient.weights, shape.dim);
    int64_t parameters = shape.dim;
    if (to.bias != nullptr) {
      squares += gradient.bias * gradient.bias;
      ++parameters;
    }
    *to.row_state = *from.row_state + squares / static_cast<float>(parameters);
    const float row_rate = static_cast<float>(factors.rate) /
                           (std::sqrt(*to.row_state) + static_cast<float>(spec().epsilon));
    const bool good = SgdUpdate({from.weights, to.weights}, gradient.weights, shape.dim, row_rate,
                                keep, shape.magnitude_bound) &&
                      IsWithin(*to.row_state, FLT_MAX);
    if (to.bias == nullptr) return good;
    *to.bias = *from.bias - row_rate * gradient.bias;
    return good && BiasIsGood(shape, gradient, to);
  }
};

class LazyAdam final : public ScheduledOptimizer {
 public:
  explicit LazyAdam(const OptimizerSpec& spec)
      : ScheduledOptimizer(spec), powers1_(spec.beta1), powers2_(spec.beta2) {}

  StepFactors BeginStep(Step step, std::optional<double> rate) const override {
    StepFactors factors = ScheduledOptimizer::BeginStep(step, rate);
    const auto correction1 = static_cast<float>(1.0 - powers1_.Power(step.value()));
    const auto correction2 = static_cast<float>(1.0 - powers2_.Power(step.value()));
    factors.adam = {.decay1 = 0.0f,
                    .decay2 = 0.0f,
                    .blend1 = static_cast<float>(1.0 - spec().beta1),
                    .blend2 = static_cast<float>(1.0 - spec().beta2),
                    .rate = static_cast<float>(factors.rate) / correction1,
                    .inverse2 = 1.0f / correction2,
                    .epsilon = static_cast<float>(spec().epsilon),
                    .keep = 1.0f};
    return factors;
  }

  bool Apply(const StepFactors& factors, const RowShape& shape, const RowGradient& gradient,
             const RowSource& from, const RowView& to) const override {
    const int64_t elapsed = ElapsedSteps(factors, gradient);
    AdamFactors adam = factors.adam;
    adam.decay1 = ToNormalFloat(powers1_.Power(elapsed));
    adam.decay2 = ToNormalFloat(powers2_.Power(elapsed));
    adam.keep = Keep(factors.rate, elapsed);
    // The bias first: its chain of square root and division then runs beside the vectors.
    const bool bias_is_good = to.bias == nullptr || (UpdateBias(adam, gradient.bias, from, to) &&
                                                     BiasIsGood(shape, gradient, to));
    const bool good = AdamUpdate({from.weights, to.weights}, {from.state, to.state},
                                 {from.state + shape.stride, to.state + shape.stride},
                                 gradient.weights, shape.dim, adam, shape.magnitude_bound);
    return good && bias_is_good;
  }

 private:
  // AdamUpdate() of one number without decay. Calling it would cost more than this arithmetic: 162
  // against 132 ns a row in OptimizerApplyBenchmark/64/3 of bench/micro.
  static bool UpdateBias(const AdamFactors& f, double gradient, const RowSource& from,
                         const RowView& to) {
    const double first = f.decay1 * double{from.bias_state[0]} + f.blend1 * gradient;
    const double second = f.decay2 * double{from.bias_state[1]} + f.blend2 * gradient * gradient;
    to.bias_state[0] = ToNormalFloat(first);
    to.bias_state[1] = ToNormalFloat(second);
    const double scale = std::sqrt(second * f.inverse2) + f.epsilon;
    *to.bias = *from.bias - static_cast<float>(f.rate * first / scale);
    return IsWithin(to.bias_state[0], FLT_MAX) && IsWithin(to.bias_state[1], FLT_MAX);
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
