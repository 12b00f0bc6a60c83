#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/engine/fusion/fusion_fit.h"
#include "core/engine/fusion/fusion_inputs.h"
#include "core/engine/fusion/fusion_record.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

TEST(FusionInputs, AreTheFormulas) {
  ComponentScores scores;
  scores.labels = {RowId(3)};
  scores.shares = {0.25f};
  scores.divided_shares = {0.125f};
  scores.near_shares = {0.0625f};
  scores.nearest = 0.75f;
  scores.label_points = {9};
  scores.centroids = {0.5f};
  scores.label_rows = {{0.5f}, {1.5f}};
  scores.paths = {{-1.0f}, {-3.0f}};
  scores.logits = {-0.25f};
  std::vector<float> inputs;
  AppendFusionInputs(scores, 1000, inputs);
  EXPECT_THAT(
      inputs,
      ElementsAre(FloatEq(std::log1p(10 * 0.25f * 1000 / 10)), FloatEq(std::log(0.2501f)),
                  FloatEq(std::log(0.1251f)),
                  FloatEq(std::log((std::exp(-1.0f) + std::exp(-3.0f)) / 2 + 1e-6f)), FloatEq(-2),
                  FloatEq(-0.0625f), FloatEq(0.5f), FloatEq(std::log(10.0f) - 0.25f),
                  FloatEq(std::log(0.0626f)), FloatEq(0.625f)));
  scores.logits.clear();
  scores.centroids.clear();
  scores.label_rows.clear();
  scores.paths.clear();
  inputs.clear();
  AppendFusionInputs(scores, 1000, inputs);
  EXPECT_EQ(inputs[3], 0);
  EXPECT_EQ(inputs[6], 0);
  EXPECT_EQ(inputs[7], 0);
  EXPECT_EQ(inputs[9], 0);
}

// Labels are drawn from the softmax of 2 x - 1 y; z is noise and c constant.
FusionSamples DrawSamples(int64_t points) {
  FusionSamples samples;
  samples.width = 4;
  CounterRng rng(9);
  for (int64_t point = 0; point < points; ++point) {
    std::vector<double> chances;
    double sum = 0;
    for (int c = 0; c < 20; ++c) {
      const float x = rng.NextGaussian();
      const float y = 3 * rng.NextGaussian() + 5;
      samples.inputs.insert(samples.inputs.end(), {x, y, rng.NextGaussian(), 7.0f});
      chances.push_back(std::exp(2 * x - y));
      sum += chances.back();
    }
    double drawn = rng.NextUniform() * sum;
    size_t label = 0;
    while (label + 1 < chances.size() && drawn >= chances[label]) drawn -= chances[label++];
    for (size_t c = 0; c < chances.size(); ++c) samples.is_label.push_back(c == label ? 1 : 0);
    samples.offsets.push_back(static_cast<int64_t>(samples.is_label.size()));
    samples.labels.push_back(1);
  }
  return samples;
}

TEST(FitFusion, FindsTheWeightsThatMadeTheLabels) {
  const FusionSamples samples = DrawSamples(4000);
  const std::vector<float> weights = FitFusion(samples, {2});
  EXPECT_NEAR(weights[0], 2, 0.15);
  EXPECT_NEAR(weights[1], -1, 0.08);
  EXPECT_NEAR(weights[2], 0, 0.1);
  EXPECT_EQ(weights[3], 0);
  EXPECT_EQ(weights, FitFusion(samples, {1}));
  EXPECT_GT(RankingQuality(samples, weights),
            RankingQuality(samples, std::vector<float>{1, 0, 0, 0}));
}

TEST(FitFusion, NothingToLearnFrom) {
  FusionSamples samples;
  samples.width = 3;
  EXPECT_THAT(FitFusion(samples, {1}), ElementsAre(0, 0, 0));
  EXPECT_EQ(RankingQuality(samples, std::vector<float>{1, 1, 1}), 0);
}

TEST(RankingQuality, IsTheMeanOfThreePrecisions) {
  FusionSamples samples;
  samples.width = 1;
  samples.inputs = {6, 5, 4, 3, 2, 1};
  samples.is_label = {1, 0, 1, 0, 0, 1};
  samples.offsets = {0, 6, 6};
  samples.labels = {3, 0};
  EXPECT_NEAR(RankingQuality(samples, std::vector<float>{1}), (1 + 2.0 / 3 + 2.0 / 5) / 3, 1e-9);
  EXPECT_NEAR(RankingQuality(samples, std::vector<float>{-1}), (1 + 1.0 / 3 + 2.0 / 5) / 3, 1e-9);
}

TEST(ClearlyBetter, ByMoreThanChance) {
  std::vector<double> base(100, 0.5);
  std::vector<double> often = base;
  std::vector<double> seldom = base;
  for (size_t i = 0; i < 100; i += 4) often[i] = 1;
  seldom[3] = 1;
  EXPECT_TRUE(ClearlyBetter(often, base));
  EXPECT_FALSE(ClearlyBetter(seldom, base));
  EXPECT_FALSE(ClearlyBetter(base, often));
  EXPECT_FALSE(ClearlyBetter(base, base));
  EXPECT_FALSE(ClearlyBetter({}, {}));
}

TEST(FusionRecord, ComesBack) {
  const FusionWeights fusion = {.points = 77, .weights = std::vector<float>(kFusionInputs, 0.5f)};
  const std::string record = EncodeFusion(fusion);
  const absl::StatusOr<FusionWeights> back = DecodeFusion(record);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->points, 77);
  EXPECT_EQ(back->weights, fusion.weights);
  EXPECT_FALSE(DecodeFusion(record.substr(0, 9)).ok());
  EXPECT_FALSE(DecodeFusion(record + "x").ok());
  const FusionWeights newer = {.points = 1, .weights = std::vector<float>(kFusionInputs + 1)};
  EXPECT_THAT(std::string(DecodeFusion(EncodeFusion(newer)).status().message()),
              HasSubstr(absl::StrCat("a fusion of ", kFusionInputs + 1, " inputs")));
  // One of an earlier version, which had fewer inputs.
  const absl::StatusOr<FusionWeights> older =
      DecodeFusion(EncodeFusion({.points = 1, .weights = {1, 2}}));
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->weights, (std::vector<float>{1, 2, 0, 0, 0, 0, 0, 0, 0, 0}));
  FusionWeights preselects = fusion;
  preselects.preselection = {.candidates = 60, .weights = std::vector<float>(kFusionInputs, 0.25f)};
  const std::string longer = EncodeFusion(preselects);
  const absl::StatusOr<FusionWeights> both = DecodeFusion(longer);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->weights, fusion.weights);
  EXPECT_EQ(both->preselection.candidates, 60);
  EXPECT_EQ(both->preselection.weights, preselects.preselection.weights);
  EXPECT_FALSE(DecodeFusion(longer.substr(0, record.size())).ok());
  EXPECT_EQ(back->preselection.candidates, 0);
  FusionWeights bad = fusion;
  bad.weights[2] = NAN;
  EXPECT_FALSE(DecodeFusion(EncodeFusion(bad)).ok());
}

}  // namespace
}  // namespace dslide
