// Fits the weights of the fusion: a softmax regression over the candidates of held-out points.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"

namespace dslide {

// Held-out points with their candidates.
struct FusionSamples {
  int64_t width = 0;                   // inputs of a candidate
  std::vector<int64_t> offsets = {0};  // [points + 1] into the candidates
  std::vector<float> inputs;           // [candidates, width]
  std::vector<uint8_t> is_label;       // [candidates]: the candidate is a label of the point
  std::vector<int64_t> labels;         // [points]: labels of the point, candidates or not

  int64_t points() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

// Minimises the mean over points of sqrt(labels) * cross-entropy between the softmax of w.x and the
// labels among the candidates, each 1 / their number, plus a small penalty of w in units of the
// inputs' standard deviations, by Newton's method. [width]. Inputs that never vary get 0. Equal for
// any number of threads.
std::vector<float> FitFusion(const FusionSamples& samples, Parallelism parallelism);

// Sum of w.x for each candidate of a point.
void FuseScores(absl::Span<const float> inputs, absl::Span<const float> weights,
                std::vector<float>& scores);

// The places of the `most` largest scores, or of all: the largest first, earlier ones first among
// equals.
std::vector<size_t> BestPlaces(absl::Span<const float> scores, size_t most);

// How well candidates are ranked by w.x, earlier ones first among equals: the mean of the
// precisions at 1, 3 and 5 of each point that has labels, in the order of the points.
std::vector<double> RankingQualities(const FusionSamples& samples, absl::Span<const float> weights);
// Their mean; 0 without points.
double RankingQuality(const FusionSamples& samples, absl::Span<const float> weights);

// Whether the first ranking is better by more than chance explains: by two standard errors of the
// mean difference. Both of the same points.
bool ClearlyBetter(absl::Span<const double> first, absl::Span<const double> second);

}  // namespace dslide
