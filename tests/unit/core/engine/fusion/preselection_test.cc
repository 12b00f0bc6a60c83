#include "core/engine/fusion/preselection.h"

#include <algorithm>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

constexpr int64_t kNoisyPoints = 100;
constexpr int64_t kNoisyCandidates = 150;

size_t PlaceOfInput(FusionInput input) { return static_cast<size_t>(input); }

// The network knows the labels up to `noise`, the trees exactly.
FusionSamples NoisySamples(float noise) {
  FusionSamples samples;
  samples.width = static_cast<int64_t>(kFusionInputs);
  CounterRng rng(5);
  for (int64_t point = 0; point < kNoisyPoints; ++point) {
    for (int64_t candidate = 0; candidate < kNoisyCandidates; ++candidate) {
      const float known = rng.NextUniform();
      std::vector<float> inputs(kFusionInputs);
      inputs[PlaceOfInput(FusionInput::kCentroid)] = known;
      inputs[PlaceOfInput(FusionInput::kNetwork)] = known + noise * (rng.NextUniform() - 0.5f);
      samples.inputs.insert(samples.inputs.end(), inputs.begin(), inputs.end());
      samples.is_label.push_back(known > 0.97f ? 1 : 0);
    }
    samples.offsets.push_back(static_cast<int64_t>(samples.is_label.size()));
    samples.labels.push_back(5);
  }
  return samples;
}

std::vector<float> CentroidAlone() {
  std::vector<float> weights(kFusionInputs);
  weights[PlaceOfInput(FusionInput::kCentroid)] = 1;
  return weights;
}

TEST(Preselection, KeepsMoreWhereLessIsKnownBefore) {
  const Preselection sure = FitPreselection(NoisySamples(0.1f), CentroidAlone(), {});
  const Preselection unsure = FitPreselection(NoisySamples(1.0f), CentroidAlone(), {});
  EXPECT_EQ(sure.candidates, 40);
  EXPECT_GT(unsure.candidates, 60);
  EXPECT_LT(unsure.candidates, kNoisyCandidates);
  for (const Preselection* const one : {&sure, &unsure}) {
    EXPECT_GT(one->weights[PlaceOfInput(FusionInput::kNetwork)], 0);
    EXPECT_EQ(one->weights[PlaceOfInput(FusionInput::kCentroid)], 0);
  }
}

TEST(Preselection, MissesOneInAHundredOfTheBest) {
  const FusionSamples samples = NoisySamples(1.0f);
  const Preselection preselection = FitPreselection(samples, CentroidAlone(), {});
  int64_t missed = 0;
  for (int64_t point = 0; point < kNoisyPoints; ++point) {
    ComponentScores scores;
    std::vector<float> known;
    for (int64_t i = 0; i < kNoisyCandidates; ++i) {
      const auto* const inputs =
          &samples.inputs[static_cast<size_t>(point * kNoisyCandidates + i) * kFusionInputs];
      scores.labels.emplace_back(static_cast<uint32_t>(i));
      scores.shares.push_back(0.5f);
      scores.divided_shares.push_back(0.5f);
      scores.near_shares.push_back(0.5f);
      scores.label_points.push_back(0);
      scores.logits.push_back(inputs[PlaceOfInput(FusionInput::kNetwork)]);
      known.push_back(inputs[PlaceOfInput(FusionInput::kCentroid)]);
    }
    std::vector<float> sorted = known;
    std::sort(sorted.rbegin(), sorted.rend());
    preselection.Apply(10, 1, scores);
    ASSERT_EQ(static_cast<int64_t>(scores.labels.size()), preselection.candidates);
    ASSERT_TRUE(std::is_sorted(scores.labels.begin(), scores.labels.end()));
    missed += 10;
    for (const RowId label : scores.labels) missed -= known[label.value()] >= sorted[9] ? 1 : 0;
  }
  EXPECT_GT(missed, 0);
  EXPECT_LE(missed, kNoisyPoints * 10 / 100);
}

TEST(Preselection, KeepsAllWithoutAFit) {
  ComponentScores scores;
  scores.labels.resize(300);
  Preselection().Apply(10, 1, scores);
  EXPECT_EQ(scores.labels.size(), 300u);
}

TEST(Preselection, KeepsMoreForMoreLabels) {
  const Preselection preselection = {.candidates = 41, .weights = {}};
  EXPECT_EQ(preselection.KeptFor(1), 41);
  EXPECT_EQ(preselection.KeptFor(10), 41);
  EXPECT_EQ(preselection.KeptFor(11), 46);
  EXPECT_EQ(preselection.KeptFor(100), 410);
}

}  // namespace
}  // namespace dslide
