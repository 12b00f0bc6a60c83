#include "core/engine/fusion/fusion_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dslide {
namespace {

// Of squared weights in units of standard deviations, against the loss of a point.
constexpr double kPenalty = 1e-3;
constexpr int kMaxRounds = 50;
constexpr double kConverged = 1e-9;  // of the loss, from round to round

// What one pass over the samples gives. Sums of fixed partitions, added in order.
struct Objective {
  double loss = 0;
  std::vector<double> gradient;  // [width]
  std::vector<double> hessian;   // [width, width]

  explicit Objective(size_t width) : gradient(width), hessian(width * width) {}
  void Add(const Objective& other) {
    loss += other.loss;
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += other.gradient[i];
    for (size_t i = 0; i < hessian.size(); ++i) hessian[i] += other.hessian[i];
  }
};

// Solves a x = b for a symmetric positive definite matrix by Cholesky's method.
std::vector<double> SolveSymmetric(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

// The inputs, shifted and scaled to mean 0 and standard deviation 1.
struct Standardised {
  std::vector<float> inputs;
  std::vector<double> deviations;  // [width]; 0 for an input that never varies

  explicit Standardised(const FusionSamples& samples)
      : inputs(samples.inputs), deviations(static_cast<size_t>(samples.width)) {
    const auto width = static_cast<size_t>(samples.width);
    const auto count = static_cast<double>(samples.is_label.size());
    for (size_t column = 0; column < width; ++column) {
      double sum = 0;
      double squares = 0;
      for (size_t i = column; i < inputs.size(); i += width) sum += inputs[i];
      const double mean = count > 0 ? sum / count : 0;
      for (size_t i = column; i < inputs.size(); i += width) {
        squares += (inputs[i] - mean) * (inputs[i] - mean);
      }
      const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
      deviations[column] = deviation > 1e-9 ? deviation : 0;
      const double scale = deviations[column] > 0 ? 1 / deviation : 0;
      for (size_t i = column; i < inputs.size(); i += width) {
        inputs[i] = static_cast<float>((inputs[i] - mean) * scale);
      }
    }
  }
};

// Adds what one point contributes.
void AddPoint(const FusionSamples& samples, absl::Span<const float> inputs,
              absl::Span<const double> weights, int64_t point, std::vector<double>& chances,
              std::vector<double>& mean, Objective& objective) {
  const auto width = weights.size();
  const auto begin = static_cast<size_t>(samples.offsets[static_cast<size_t>(point)]);
  const auto count = static_cast<size_t>(samples.offsets[static_cast<size_t>(point) + 1]) - begin;
  const auto labels =
      std::accumulate(samples.is_label.begin() + static_cast<std::ptrdiff_t>(begin),
                      samples.is_label.begin() + static_cast<std::ptrdiff_t>(begin + count), 0);
  if (labels == 0) return;
  const double importance = std::sqrt(static_cast<double>(labels));
  const double target = 1.0 / labels;
  chances.resize(count);
  double best = -1e300;
  for (size_t c = 0; c < count; ++c) {
    const float* const x = &inputs[(begin + c) * width];
    chances[c] = 0;
    for (size_t i = 0; i < width; ++i) chances[c] += weights[i] * x[i];
    best = std::max(best, chances[c]);
  }
  double sum = 0;
  for (size_t c = 0; c < count; ++c) {
    if (samples.is_label[begin + c] != 0) objective.loss -= importance * target * chances[c];
    chances[c] = std::exp(chances[c] - best);
    sum += chances[c];
  }
  objective.loss += importance * (best + std::log(sum));
  mean.assign(width, 0);
  for (size_t c = 0; c < count; ++c) {
    const float* const x = &inputs[(begin + c) * width];
    const double chance = chances[c] / sum;
    const double excess = chance - (samples.is_label[begin + c] != 0 ? target : 0);
    for (size_t i = 0; i < width; ++i) {
      mean[i] += chance * x[i];
      objective.gradient[i] += importance * excess * x[i];
      const double part = importance * chance * x[i];
      for (size_t j = 0; j <= i; ++j) objective.hessian[i * width + j] += part * x[j];
    }
  }
  for (size_t i = 0; i < width; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      objective.hessian[i * width + j] -= importance * mean[i] * mean[j];
    }
  }
}

Objective Evaluate(const FusionSamples& samples, absl::Span<const float> inputs,
                   const std::vector<double>& weights, Parallelism parallelism) {
  const size_t width = weights.size();
  std::vector<Objective> parts(kFixedPartitions, Objective(width));
  ParallelFor(parallelism, kFixedPartitions, 1, [&](int64_t part, int) {
    std::vector<double> chances;
    std::vector<double> mean;
    const auto [first, last] = PartitionRange(samples.points(), kFixedPartitions, part);
    for (int64_t point = first; point < last; ++point) {
      AddPoint(samples, inputs, weights, point, chances, mean, parts[static_cast<size_t>(part)]);
    }
  });
  Objective all(width);
  for (const Objective& part : parts) all.Add(part);
  const double scale = 1 / static_cast<double>(std::max<int64_t>(samples.points(), 1));
  all.loss *= scale;
  for (size_t i = 0; i < width; ++i) {
    all.loss += kPenalty * weights[i] * weights[i];
    all.gradient[i] = all.gradient[i] * scale + 2 * kPenalty * weights[i];
    for (size_t j = 0; j <= i; ++j) {
      all.hessian[i * width + j] = all.hessian[i * width + j] * scale + (i == j ? 2 * kPenalty : 0);
    }
  }
  return all;
}

}  // namespace

std::vector<float> FitFusion(const FusionSamples& samples, Parallelism parallelism) {
  const auto width = static_cast<size_t>(samples.width);
  const Standardised standard(samples);
  std::vector<double> weights(width);
  Objective now = Evaluate(samples, standard.inputs, weights, parallelism);
  for (int round = 0; round < kMaxRounds; ++round) {
    const std::vector<double> step = SolveSymmetric(now.hessian, now.gradient);
    // Halved until it helps: the loss is convex, so that a small enough one does.
    bool moved = false;
    const double before = now.loss;
    for (double length = 1; length > 1e-4 && !moved; length /= 2) {
      std::vector<double> next = weights;
      for (size_t i = 0; i < width; ++i) next[i] -= length * step[i];
      Objective there = Evaluate(samples, standard.inputs, next, parallelism);
      if (there.loss >= now.loss) continue;
      weights = std::move(next);
      now = std::move(there);
      moved = true;
    }
    if (!moved || before - now.loss < kConverged) break;
  }
  std::vector<float> result;
  for (size_t i = 0; i < width; ++i) {
    const double deviation = standard.deviations[i];
    result.push_back(static_cast<float>(deviation > 0 ? weights[i] / deviation : 0));
  }
  return result;
}

void FuseScores(absl::Span<const float> inputs, absl::Span<const float> weights,
                std::vector<float>& scores) {
  scores.assign(inputs.size() / weights.size(), 0.0f);
  for (size_t c = 0; c < scores.size(); ++c) {
    for (size_t i = 0; i < weights.size(); ++i) {
      scores[c] += inputs[c * weights.size() + i] * weights[i];
    }
  }
}

std::vector<size_t> BestPlaces(absl::Span<const float> scores, size_t most) {
  std::vector<size_t> places(scores.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const size_t top = std::min(most, places.size());
  std::partial_sort(
      places.begin(), places.begin() + static_cast<std::ptrdiff_t>(top), places.end(),
      [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  places.resize(top);
  return places;
}

std::vector<double> RankingQualities(const FusionSamples& samples,
                                     absl::Span<const float> weights) {
  std::vector<float> scores;
  std::vector<double> qualities;
  for (int64_t point = 0; point < samples.points(); ++point) {
    if (samples.labels[static_cast<size_t>(point)] == 0) continue;
    const auto begin = static_cast<size_t>(samples.offsets[static_cast<size_t>(point)]);
    const auto count = static_cast<size_t>(samples.offsets[static_cast<size_t>(point) + 1]) - begin;
    FuseScores(
        absl::MakeConstSpan(samples.inputs).subspan(begin * weights.size(), count * weights.size()),
        weights, scores);
    const std::vector<size_t> best = BestPlaces(scores, 5);
    const size_t top = best.size();
    int64_t hits = 0;
    double sum = 0;
    for (size_t i = 0; i < top; ++i) {
      hits += samples.is_label[begin + best[i]];
      if (i == 0) sum += static_cast<double>(hits);
      // Where there are fewer than three candidates, the rest are misses.
      if (i == std::min<size_t>(2, top - 1)) sum += static_cast<double>(hits) / 3;
    }
    sum += static_cast<double>(hits) / 5;
    qualities.push_back(sum / 3);
  }
  return qualities;
}

double RankingQuality(const FusionSamples& samples, absl::Span<const float> weights) {
  const std::vector<double> qualities = RankingQualities(samples, weights);
  if (qualities.empty()) return 0;
  return std::accumulate(qualities.begin(), qualities.end(), 0.0) /
         static_cast<double>(qualities.size());
}

bool ClearlyBetter(absl::Span<const double> first, absl::Span<const double> second) {
  const auto count = static_cast<double>(first.size());
  if (count < 2) return false;
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double difference = first[i] - second[i];
    sum += difference;
    squares += difference * difference;
  }
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean);
  return mean > 2 * std::sqrt(variance / (count - 1));
}

}  // namespace dslide
