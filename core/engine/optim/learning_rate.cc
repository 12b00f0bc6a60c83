#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/engine/optim/optimizer.h"

namespace dslide {

double LearningRateAt(const OptimizerSpec& spec, Step step) {
  const ScheduleSpec& schedule = spec.schedule;
  const int64_t warmup = schedule.warmup_steps;
  if (step.value() < warmup) {
    return spec.learning_rate * static_cast<double>(step.value()) / static_cast<double>(warmup);
  }
  if (schedule.kind == ScheduleKind::kConstant) return spec.learning_rate;
  const double progress = std::min(
      1.0, static_cast<double>(step.value() - warmup) / static_cast<double>(schedule.decay_steps));
  const double height = schedule.kind == ScheduleKind::kLinear
                            ? 1.0 - progress
                            : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return spec.learning_rate * (schedule.final_fraction + (1.0 - schedule.final_fraction) * height);
}

}  // namespace dslide
