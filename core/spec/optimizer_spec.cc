#include "core/spec/optimizer_spec.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

// Squares of gradients below about 3e-18 vanish in f32 (they are subnormal). Their first moments do
// not: a smaller epsilon would divide the one by nearly nothing.
constexpr double kMinEpsilon = 1e-16;

absl::Status FieldError(absl::string_view field, double value, absl::string_view range) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", range));
}

OptimizerStateSizes OwnStateSizesOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return {};
    case OptimizerKind::kAdagrad:
      return {.vectors = 1, .bias_floats = 1, .row_floats = 0};
    case OptimizerKind::kRowWiseAdagrad:
      return {.vectors = 0, .bias_floats = 0, .row_floats = 1};
    case OptimizerKind::kAdam:
      return {.vectors = 2, .bias_floats = 2, .row_floats = 0};
  }
  return {};
}

}  // namespace

OptimizerStateSizes StateSizesOf(const OptimizerSpec& spec) {
  OptimizerStateSizes sizes = OwnStateSizesOf(spec.kind);
  if (spec.average_decay > 0.0) {
    ++sizes.vectors;
    ++sizes.bias_floats;
  }
  return sizes;
}

absl::Status ScheduleSpec::Validate() const {
  if (warmup_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.warmup_steps is ", warmup_steps, "; it must be 0 or more"));
  }
  const int64_t least_decay = kind == ScheduleKind::kConstant ? 0 : 1;
  if (decay_steps < least_decay) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.decay_steps is ", decay_steps,
                                                   "; this kind of schedule needs ", least_decay,
                                                   " or more"));
  }
  if (!(final_fraction >= 0.0 && final_fraction <= 1.0)) {
    return FieldError("schedule.final_fraction", final_fraction, "in [0, 1]");
  }
  return absl::OkStatus();
}

absl::Status TableRate::Validate() const {
  if (!(learning_rate > 0.0 && std::isfinite(learning_rate))) {
    return FieldError("learning_rate", learning_rate, "finite and above 0");
  }
  return schedule.Validate();
}

absl::Status OptimizerSpec::Validate() const {
  if (!(learning_rate > 0.0 && std::isfinite(learning_rate))) {
    return FieldError("optimizer.learning_rate", learning_rate, "finite and above 0");
  }
  if (!(beta1 >= 0.0 && beta1 < 1.0)) return FieldError("optimizer.beta1", beta1, "in [0, 1)");
  if (!(beta2 >= 0.0 && beta2 < 1.0)) return FieldError("optimizer.beta2", beta2, "in [0, 1)");
  if (!(epsilon >= kMinEpsilon && std::isfinite(epsilon))) {
    return FieldError("optimizer.epsilon", epsilon, "finite and at least 1e-16");
  }
  if (!(weight_decay >= 0.0 && weight_decay <= 1.0)) {
    return FieldError("optimizer.weight_decay", weight_decay, "in [0, 1]");
  }
  if (!(average_decay >= 0.0 && average_decay < 1.0)) {
    return FieldError("optimizer.average_decay", average_decay, "in [0, 1)");
  }
  RETURN_IF_ERROR(CheckRate(learning_rate));
  return schedule.Validate();
}

absl::Status OptimizerSpec::CheckRate(double rate) const {
  if (!(rate >= 0.0 && std::isfinite(rate))) {
    return FieldError("learning_rate", rate, "finite and not negative");
  }
  if (rate * weight_decay < 1.0) return absl::OkStatus();
  return FieldError("learning_rate * optimizer.weight_decay", rate * weight_decay,
                    "below 1, or weights would change sign");
}

}  // namespace dslide
