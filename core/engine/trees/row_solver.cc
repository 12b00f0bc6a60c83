#include "core/engine/trees/row_solver.h"

#include <algorithm>
#include <cmath>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

// Passes end when no step is larger. Closer brings no accuracy, only time.
constexpr float kTolerance = 0.3f;
// A point that is so far on its right side leaves the passes until the others have settled.
constexpr float kShrinkAbove = 5 * kTolerance;

}  // namespace

RowSolver::RowSolver(PointViews points, absl::Span<const float> squared_lengths, int64_t features,
                     RowSolverOptions options)
    : points_(points),
      squared_lengths_(squared_lengths),
      options_(options),
      diagonal_(static_cast<float>(0.5 / options.cost)) {
  row_.Resize(features);
}

void RowSolver::Prepare(absl::Span<const uint32_t> all, absl::Span<const uint32_t> positive) {
  samples_.clear();
  size_t next = 0;
  for (const uint32_t id : all) {
    const PointView point = points_[id];
    const bool is_positive = next < positive.size() && positive[next] == id;
    if (is_positive) ++next;
    samples_.push_back({.features = point.features().data(),
                        .values = point.values().data(),
                        .size = static_cast<uint32_t>(point.num_features()),
                        .sign = is_positive ? 1.0f : -1.0f,
                        .alpha = 0,
                        .curvature = squared_lengths_[id] + 1 + diagonal_});
  }
}

float RowSolver::Score(const Sample& sample) const {
  const float* const weights = row_.weights.data();
  float sums[4] = {};
  uint32_t i = 0;
  for (; i + 4 <= sample.size; i += 4) {
    for (uint32_t lane = 0; lane < 4; ++lane) {
      sums[lane] += weights[sample.features[i + lane].value()] * ToFloat(sample.values[i + lane]);
    }
  }
  for (; i < sample.size; ++i) {
    sums[0] += weights[sample.features[i].value()] * ToFloat(sample.values[i]);
  }
  return bias_ + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

void RowSolver::Add(const Sample& sample, float amount) {
  for (uint32_t i = 0; i < sample.size; ++i) {
    const uint32_t column = sample.features[i].value();
    row_.Touch(column);
    row_.weights[column] += amount * ToFloat(sample.values[i]);
  }
  bias_ += amount;
}

float RowSolver::Pass(size_t& active) {
  float largest = 0;
  for (size_t i = 0; i < active; ++i) {
    Sample& sample = samples_[i];
    const float gradient = sample.sign * Score(sample) - 1 + diagonal_ * sample.alpha;
    if (sample.alpha == 0 && gradient >= 0) {
      if (gradient > kShrinkAbove) std::swap(samples_[i--], samples_[--active]);
      continue;
    }
    const float alpha = std::max(sample.alpha - gradient / sample.curvature, 0.0f);
    const float step = alpha - sample.alpha;
    largest = std::max(largest, std::abs(step) * sample.curvature);
    sample.alpha = alpha;
    if (step != 0) Add(sample, step * sample.sign);
  }
  return largest;
}

std::string RowSolver::Solve(absl::Span<const uint32_t> all, absl::Span<const uint32_t> positive,
                             uint64_t key) {
  Prepare(all, positive);
  bias_ = 0;
  CounterRng rng(key);
  size_t active = samples_.size();
  for (int64_t pass = 0; pass < options_.passes; ++pass) {
    for (size_t i = active; i > 1; --i) std::swap(samples_[i - 1], samples_[rng.NextBelow(i)]);
    if (Pass(active) >= kTolerance) continue;
    if (active == samples_.size()) break;
    active = samples_.size();
  }
  std::string record = EncodeSparseRow(row_, bias_, 1, options_.drop_below);
  row_.Clear();
  return record;
}

}  // namespace dslide
