#include "core/engine/fusion/preselection.h"

#include <algorithm>

namespace dslide {
namespace {

constexpr int64_t kWanted = 10;
constexpr double kMissed = 0.01;
// However few: held-out points do not show what is rare.
constexpr int64_t kLeastCandidates = 40;
constexpr FusionInput kOfTrees[] = {FusionInput::kTreeSum, FusionInput::kTreeMean,
                                    FusionInput::kLabelRow, FusionInput::kCentroid,
                                    FusionInput::kRelativeCentroid};

template <typename T>
void KeepPlaces(absl::Span<const size_t> places, std::vector<T>& values) {
  if (values.empty()) return;
  // They ascend: nothing is overwritten before it is read.
  for (size_t i = 0; i < places.size(); ++i) values[i] = values[places[i]];
  values.resize(places.size());
}

}  // namespace

int64_t Preselection::KeptFor(int64_t k) const {
  return k <= kWanted ? candidates : (candidates * k + kWanted - 1) / kWanted;
}

void Preselection::Apply(int64_t k, double points, ComponentScores& scores) const {
  const auto kept = static_cast<size_t>(KeptFor(k));
  if (kept == 0 || kept >= scores.labels.size()) return;
  std::vector<float> inputs;
  std::vector<float> sums;
  AppendFusionInputs(scores, points, inputs);
  FuseScores(inputs, weights, sums);
  std::vector<size_t> places = BestPlaces(sums, kept);
  std::sort(places.begin(), places.end());
  KeepPlaces<RowId>(places, scores.labels);
  for (std::vector<float>* const values :
       {&scores.shares, &scores.divided_shares, &scores.near_shares, &scores.label_points,
        &scores.logits}) {
    KeepPlaces<float>(places, *values);
  }
}

Preselection FitPreselection(FusionSamples samples, absl::Span<const float> weights,
                             Parallelism parallelism) {
  const auto width = static_cast<size_t>(samples.width);
  std::vector<float> scores;
  FuseScores(samples.inputs, weights, scores);
  for (size_t candidate = 0; candidate < samples.is_label.size(); ++candidate) {
    for (const FusionInput input : kOfTrees) {
      samples.inputs[candidate * width + static_cast<size_t>(input)] = 0;
    }
  }
  Preselection preselection = {.weights = FitFusion(samples, parallelism)};
  std::vector<float> before;
  FuseScores(samples.inputs, preselection.weights, before);
  std::vector<int64_t> counts;  // by place before: how many of the best are there
  int64_t best = 0;
  for (int64_t point = 0; point < samples.points(); ++point) {
    const auto begin = static_cast<size_t>(samples.offsets[static_cast<size_t>(point)]);
    const auto count = static_cast<size_t>(samples.offsets[static_cast<size_t>(point) + 1]) - begin;
    const std::vector<size_t> wanted =
        BestPlaces(absl::MakeConstSpan(scores).subspan(begin, count), kWanted);
    const std::vector<size_t> order =
        BestPlaces(absl::MakeConstSpan(before).subspan(begin, count), count);
    std::vector<size_t> place_of(count);
    for (size_t place = 0; place < count; ++place) place_of[order[place]] = place;
    counts.resize(std::max(counts.size(), count));
    for (const size_t candidate : wanted) ++counts[place_of[candidate]];
    best += static_cast<int64_t>(wanted.size());
  }
  const auto may_miss = static_cast<int64_t>(kMissed * static_cast<double>(best));
  auto kept = static_cast<int64_t>(counts.size());
  for (int64_t missed = 0; kept > kLeastCandidates; --kept) {
    missed += counts[static_cast<size_t>(kept - 1)];
    if (missed > may_miss) break;
  }
  preselection.candidates = std::max(kept, kLeastCandidates);
  return preselection;
}

}  // namespace dslide
