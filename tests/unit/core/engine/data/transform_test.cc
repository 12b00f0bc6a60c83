#include "core/engine/data/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/engine/data/sparse_dataset.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

SparseBatch TwoSamples() {
  SparseBatch batch;
  batch.features = {RowId(0), RowId(2), RowId(1)};
  batch.values = {3.0f, 4.0f, 0.0f};
  batch.feature_offsets = {0, 2, 3};
  batch.label_offsets = {0, 0, 0};
  return batch;
}

TEST(ApplyTransformTest, RawChangesNothing) {
  SparseBatch batch = TwoSamples();
  ASSERT_TRUE(ApplyTransform(ValueTransform::kRaw, {}, &batch).ok());
  EXPECT_THAT(batch.values, ElementsAre(3.0f, 4.0f, 0.0f));
}

TEST(ApplyTransformTest, L2MakesUnitLengthAndKeepsZeroSamples) {
  SparseBatch batch = TwoSamples();
  ASSERT_TRUE(ApplyTransform(ValueTransform::kL2, {}, &batch).ok());
  EXPECT_THAT(batch.values, ElementsAre(0.6f, 0.8f, 0.0f));
}

TEST(ApplyTransformTest, TfIdfIsDampedCountTimesIdfThenUnitLength) {
  SparseBatch batch = TwoSamples();
  const std::vector<float> idf = {2.0f, 9.0f, 0.5f};
  ASSERT_TRUE(ApplyTransform(ValueTransform::kTfIdf, idf, &batch).ok());
  const double a = (1 + std::log(3.0)) * 2.0;
  const double b = (1 + std::log(4.0)) * 0.5;
  const double norm = std::sqrt(a * a + b * b);
  // A few roundings of 2^-24 each on numbers below 1.
  EXPECT_THAT(batch.values, ElementsAre(FloatNear(static_cast<float>(a / norm), 4e-7f),
                                        FloatNear(static_cast<float>(b / norm), 4e-7f), 0.0f));
}

TEST(ApplyTransformTest, FractionsAreNotDampedAndSignsAreKept) {
  SparseBatch batch;
  batch.features = {RowId(0), RowId(1), RowId(2)};
  batch.values = {0.25f, -0.25f, -std::exp(1.0f)};
  batch.feature_offsets = {0, 3};
  batch.label_offsets = {0, 0};
  ASSERT_TRUE(ApplyTransform(ValueTransform::kTfIdf, {1.0f, 1.0f, 1.0f}, &batch).ok());
  const float norm = std::sqrt(0.25f * 0.25f * 2 + 4.0f);
  EXPECT_THAT(batch.values,
              ElementsAre(FloatNear(0.25f / norm, 1e-6f), FloatNear(-0.25f / norm, 1e-6f),
                          FloatNear(-2.0f / norm, 1e-6f)));
}

TEST(ApplyTransformTest, AFeatureWithoutIdfIsRefusedAndNothingChanges) {
  SparseBatch batch = TwoSamples();
  const absl::Status status = ApplyTransform(ValueTransform::kTfIdf, {1.0f, 1.0f}, &batch);
  EXPECT_EQ(status.message(), "feature 2 has no idf; 2 features are known");
  EXPECT_THAT(batch.values, ElementsAre(3.0f, 4.0f, 0.0f));
}

std::unique_ptr<SparseDataset> Data(bool count_document_frequency) {
  CounterRng rng(9);
  std::string text = "5000 50 3\n";
  for (int i = 0; i < 5000; ++i) {
    text += "0";
    for (uint64_t f = 0; f < 50; ++f) {
      if (rng.NextBelow(f + 2) == 0) absl::StrAppend(&text, " ", f, ":1");
    }
    text += "\n";
  }
  SparseDatasetOptions options;
  options.count_document_frequency = count_document_frequency;
  auto data = SparseDataset::FromText("data.txt", text, options);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

TEST(ComputeIdfTest, CountsTheTrainingPartOnly) {
  const auto data = Data(true);
  const absl::StatusOr<TrainingSplit> split = TrainingSplit::Create(5000, 4, 0.3, 0);
  std::vector<int64_t> counts(50, 0);
  SparseBatch batch;
  for (int64_t i = 0; i < split->num_training(); ++i) {
    ASSERT_TRUE(data->ReadSamples({split->TrainingPoint(i)}, &batch).ok());
    for (const RowId feature : batch.features) ++counts[feature.value()];
  }
  const absl::StatusOr<std::vector<float>> idf = ComputeIdf(*data, *split, {1});
  ASSERT_TRUE(idf.ok()) << idf.status();
  ASSERT_EQ(idf->size(), 50u);
  for (size_t f = 0; f < 50; ++f) {
    EXPECT_FLOAT_EQ((*idf)[f],
                    static_cast<float>(std::log(3501.0 / (1.0 + static_cast<double>(counts[f])))));
  }
}

TEST(ComputeIdfTest, NeitherThreadsNorCountsFromOpenChangeABit) {
  const auto counted = Data(true);
  const auto uncounted = Data(false);
  for (const double fraction : {0.0, 0.3}) {
    const absl::StatusOr<TrainingSplit> split = TrainingSplit::Create(5000, 4, fraction, 0);
    const std::vector<float> expected = *ComputeIdf(*counted, *split, {1});
    EXPECT_EQ(*ComputeIdf(*counted, *split, {3}), expected);
    EXPECT_EQ(*ComputeIdf(*uncounted, *split, {1}), expected);
    EXPECT_EQ(*ComputeIdf(*uncounted, *split, {3}), expected);
  }
}

TEST(ComputeIdfTest, RefusesASplitOfOtherData) {
  const auto data = Data(false);
  EXPECT_EQ(ComputeIdf(*data, TrainingSplit::All(7), {1}).status().message(),
            "a split of 7 points does not fit data.txt with 5000");
}

TEST(FeatureStatsTest, ReadsBackBitEqual) {
  TempDir dir;
  FeatureStats stats;
  CounterRng rng(2);
  for (int i = 0; i < 1000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(rng.NextBits()));
    stats.idf.push_back(std::isfinite(value) ? value : 0.1f);
    stats.names.push_back(i % 3 == 0 ? "" : absl::StrCat("wörd ", i));
  }
  ASSERT_TRUE(stats.Save(dir.File("features.tsv")).ok());
  const absl::StatusOr<FeatureStats> loaded = FeatureStats::Load(dir.File("features.tsv"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->names, stats.names);
  ASSERT_EQ(loaded->idf.size(), stats.idf.size());
  for (size_t i = 0; i < stats.idf.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(loaded->idf[i]), std::bit_cast<uint32_t>(stats.idf[i]));
  }
}

TEST(FeatureStatsTest, NamesTheBadPlace) {
  TempDir dir;
  const std::string path = dir.File("features.tsv");
  WriteFile(path, "1.5\ta\nsome\tb\n");
  EXPECT_EQ(FeatureStats::Load(path).status().message(),
            absl::StrCat(path,
                         ":2:1: found \"some\\tb\", expected idf<TAB>name with a finite "
                         "decimal idf"));
  WriteFile(path, "1.5\n");
  EXPECT_FALSE(FeatureStats::Load(path).ok());
  EXPECT_EQ(FeatureStats::Load(dir.File("none")).status().code(), absl::StatusCode::kNotFound);

  FeatureStats bad;
  bad.idf = {1.0f};
  bad.names = {"a\tb"};
  EXPECT_EQ(bad.Save(path).message(),
            absl::StrCat("cannot write ", path,
                         ": the name of feature 0 holds a tab or a line end: \"a\\tb\""));
  bad.names = {};
  EXPECT_FALSE(bad.Save(path).ok());
}

TEST(FeatureStatsTest, TakesNamesFromTheDataset) {
  const auto data = Data(false);
  const FeatureStats stats = FeatureStats::FromDataset(*data, std::vector<float>(50, 1.0f));
  EXPECT_EQ(stats.names.size(), 50u);
  EXPECT_EQ(stats.names[3], "");
}

}  // namespace
}  // namespace dslide
