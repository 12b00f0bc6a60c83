#include "tests/reference/optim_reference.h"

#include <cmath>

namespace dslide::reference {
namespace {

constexpr double kPi = 3.14159265358979323846;

void Shrink(const OptimizerSpec& spec, double rate, Parameter* parameter) {
  if (parameter->decays) parameter->weight *= 1.0 - rate * spec.weight_decay;
}

}  // namespace

double LearningRate(const OptimizerSpec& spec, int64_t step) {
  const ScheduleSpec& schedule = spec.schedule;
  if (step < schedule.warmup_steps) {
    return spec.learning_rate * (static_cast<double>(step) / schedule.warmup_steps);
  }
  const double high = spec.learning_rate;
  const double low = spec.learning_rate * schedule.final_fraction;
  const int64_t past = step - schedule.warmup_steps;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return high;
    case ScheduleKind::kLinear:
      if (past >= schedule.decay_steps) return low;
      return high + (low - high) * past / schedule.decay_steps;
    case ScheduleKind::kCosine:
      if (past >= schedule.decay_steps) return low;
      return low + (high - low) * (1.0 + std::cos(kPi * past / schedule.decay_steps)) / 2.0;
  }
  return std::nan("");
}

void DenseStep(const OptimizerSpec& spec, int64_t step, const std::vector<double>& gradients,
               Row* row) {
  const double rate = LearningRate(spec, step);
  double mean_square = 0.0;
  for (const double g : gradients) mean_square += g * g / static_cast<double>(gradients.size());
  row->row_state += mean_square;
  for (size_t i = 0; i < row->parameters.size(); ++i) {
    Parameter* const p = &row->parameters[i];
    const double g = gradients[i];
    Shrink(spec, rate, p);
    switch (spec.kind) {
      case OptimizerKind::kSgd:
        p->weight -= rate * g;
        break;
      case OptimizerKind::kAdagrad:
        p->first += g * g;
        p->weight -= rate * g / (std::sqrt(p->first) + spec.epsilon);
        break;
      case OptimizerKind::kRowWiseAdagrad:
        p->weight -= rate * g / (std::sqrt(row->row_state) + spec.epsilon);
        break;
      case OptimizerKind::kAdam: {
        p->first = spec.beta1 * p->first + (1.0 - spec.beta1) * g;
        p->second = spec.beta2 * p->second + (1.0 - spec.beta2) * g * g;
        const double first = p->first / (1.0 - std::pow(spec.beta1, step));
        const double second = p->second / (1.0 - std::pow(spec.beta2, step));
        p->weight -= rate * first / (std::sqrt(second) + spec.epsilon);
        break;
      }
    }
  }
}

void MissedStep(const OptimizerSpec& spec, double rate, Row* row) {
  for (Parameter& p : row->parameters) {
    Shrink(spec, rate, &p);
    if (spec.kind == OptimizerKind::kAdam) {
      p.first *= spec.beta1;
      p.second *= spec.beta2;
    }
  }
}

}  // namespace dslide::reference
