// Scores of few features: those of all features, by every way to find them.

#include "core/engine/trees/sample_scorer.h"

#include <gtest/gtest.h>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr int64_t kSampleColumns = 3000;

// About one in `every` columns, with a value.
std::vector<uint32_t> DrawColumns(uint64_t every, CounterRng& rng) {
  std::vector<uint32_t> some;
  for (uint32_t column = 0; column < kSampleColumns; ++column) {
    if (rng.NextBelow(every) == 0) some.push_back(column);
  }
  return some;
}

std::string ScoredRow(const std::vector<uint32_t>& columns, CounterRng& rng) {
  DenseRow row;
  row.Resize(kSampleColumns);
  for (const uint32_t column : columns) {
    row.Touch(column);
    row.weights[column] = rng.NextGaussian();
  }
  return EncodeSparseRow(row, 0.125f, 1, 0);
}

TEST(SampleScorer, EqualsTheDenseScoreToTheLastBit) {
  CounterRng rng(5);
  SampleScorer scorer;  // one for all samples: nothing of the one before is left
  for (int round = 0; round < 60; ++round) {
    std::vector<float> input(kSampleColumns);
    std::vector<RowId> features;
    std::vector<float> values;
    for (const uint32_t feature : DrawColumns(1 + rng.NextBelow(300), rng)) {
      features.emplace_back(feature);
      values.push_back(rng.NextGaussian());
      input[feature] = values.back();
    }
    scorer.Set(features, values, kSampleColumns);
    // From nearly all columns to none: short rows are scanned, long ones searched.
    for (const uint64_t every : {1, 2, 7, 30, 200, 2000, 100000}) {
      const std::string record = ScoredRow(DrawColumns(every, rng), rng);
      const SparseRowView view(record.data());
      EXPECT_EQ(scorer.Score(view), view.Score(input.data())) << round << " " << every;
    }
  }
}

TEST(SampleScorer, ASampleWithoutFeaturesHasTheBias) {
  CounterRng rng(6);
  SampleScorer scorer;
  scorer.Set({}, {}, 0);
  EXPECT_EQ(scorer.Score(SparseRowView(ScoredRow({}, rng).data())), 0.125f);
  scorer.Set({}, {}, kSampleColumns);
  EXPECT_EQ(scorer.Score(SparseRowView(ScoredRow({3, 2999}, rng).data())), 0.125f);
}

}  // namespace
}  // namespace dslide
