// What is foreseen of tables of records, against what a training would make.

#include "client/components/component_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide {
namespace {

constexpr int kContentPoints = 400;
constexpr int kContentFeatures = 300;
constexpr int kContentLabels = 40;

// Each point has a label, three of the features that are the label's, and two others.
std::string ContentText() {
  std::string text = absl::StrCat(kContentPoints, " ", kContentFeatures, " ", kContentLabels, "\n");
  for (int point = 0; point < kContentPoints; ++point) {
    CounterRng rng(DeriveKey(3, static_cast<uint64_t>(point)));
    const uint64_t label = rng.NextBelow(kContentLabels - 1);  // the last one is nobody's
    std::set<uint64_t> features;
    while (features.size() < 3) features.insert(5 * label + rng.NextBelow(5));
    while (features.size() < 5) features.insert(200 + rng.NextBelow(100));
    absl::StrAppend(&text, label);
    for (const uint64_t feature : features) absl::StrAppend(&text, " ", feature, ":1");
    absl::StrAppend(&text, "\n");
  }
  return text;
}

ModelSpec ContentSpec() {
  ModelSpec spec;
  spec.name = "m";
  for (const TableRole role : {TableRole::kMemory, TableRole::kLabelTrees, TableRole::kLinear}) {
    TableSpec& table = spec.tables.emplace_back();
    table.name = std::string(RoleName(role));
    table.role = role;
  }
  spec.tables[1].trees.leaf_labels = 10;
  EXPECT_TRUE(FillComponentSizes({.points = kContentPoints,
                                  .labels = kContentLabels,
                                  .used_labels = kContentLabels,
                                  .path = {}},
                                 nullptr, /*grow=*/false, spec)
                  .ok());
  return spec;
}

class ComponentContentTest : public ::testing::Test {
 protected:
  ComponentContent Content(const ModelSpec& spec, int threads = 1, int64_t shards = 1) const {
    std::vector<uint8_t> held_out(kContentPoints);
    held_out[7] = 1;
    const auto content = ContentOf(*data_, TrainingSplit::FromHeldOut(held_out),
                                   ValueTransform::kL2, {}, spec, shards, Parallelism{threads});
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or(ComponentContent());
  }

  const std::unique_ptr<Dataset> data_ = *SparseDataset::FromText("data", ContentText(), {});
};

TEST_F(ComponentContentTest, CountsPointsAndCentroids) {
  const ComponentContent content = Content(ContentSpec());
  EXPECT_TRUE(content.of_data);
  EXPECT_EQ(content.points, kContentPoints);
  EXPECT_EQ(content.features, kContentFeatures);
  EXPECT_EQ(content.features_per_point, 5);
  EXPECT_EQ(content.labels_per_point, 1);
  EXPECT_EQ(content.record_bytes, 16 + 5 * 6 + 4);
  EXPECT_GT(content.index_bytes, kContentPoints * 5 * 4);
  // A row for each label that a training point has, of the features that its points have.
  std::vector<std::set<uint32_t>> features(kContentLabels);
  SparseBatch samples;
  for (int64_t point = 0; point < kContentPoints; ++point) {
    if (point == 7) continue;
    ASSERT_TRUE(data_->ReadSamples({&point, 1}, &samples).ok());
    for (const RowId feature : samples.FeaturesOf(0)) {
      features[samples.LabelsOf(0)[0].value()].insert(feature.value());
    }
  }
  double rows = 0;
  double weights = 0;
  for (const auto& mine : features) {
    rows += mine.empty() ? 0 : 1;
    weights += static_cast<double>(mine.size());
  }
  EXPECT_EQ(content.centroids.rows, rows);
  EXPECT_EQ(content.centroids.weights, weights);
}

TEST_F(ComponentContentTest, SolvesRowsToSeeWhatIsKept) {
  ModelSpec spec = ContentSpec();
  const ComponentContent usual = Content(spec);
  // Few points: nothing needs to be drawn. Four trees of the same labels.
  EXPECT_EQ(usual.labels.rows, 4 * usual.centroids.rows);
  EXPECT_EQ(usual.clusters.rows, 4 * 4);
  EXPECT_GT(usual.kept_share(), 0.05);
  EXPECT_LT(usual.kept_share(), 0.95);
  spec.tables[2].linear.drop_below = 0;
  const ComponentContent all = Content(spec);
  EXPECT_EQ(all.kept_share(), 1);
  EXPECT_EQ(all.labels.weights + all.clusters.weights,
            usual.labels.weights + usual.clusters.weights + usual.dropped_weights);
}

TEST_F(ComponentContentTest, DoesNotDependOnThreads) {
  const ComponentContent one = Content(ContentSpec(), 1);
  const ComponentContent two = Content(ContentSpec(), 2);
  EXPECT_EQ(one.labels.weights, two.labels.weights);
  EXPECT_EQ(one.clusters.weights, two.clusters.weights);
  EXPECT_EQ(one.dropped_weights, two.dropped_weights);
  // Lists of features are on every shard.
  EXPECT_GT(Content(ContentSpec(), 1, 2).index_bytes, one.index_bytes / 2);
}

TEST_F(ComponentContentTest, WithoutTreesThereAreNoRows) {
  ModelSpec spec = ContentSpec();
  spec.tables.resize(1);
  const ComponentContent content = Content(spec);
  EXPECT_EQ(content.points, kContentPoints);
  EXPECT_EQ(content.centroids.rows, 0);
  EXPECT_EQ(content.kept_share(), 1);
}

TEST_F(ComponentContentTest, AGuessIsOfTheSameSize) {
  const ComponentContent counted = Content(ContentSpec());
  const ComponentContent guessed = GuessContent(
      {.points = kContentPoints, .features = kContentFeatures, .labels = kContentLabels}, 5, 1,
      ContentSpec());
  EXPECT_FALSE(guessed.of_data);
  EXPECT_EQ(guessed.dropped_weights, 0);
  EXPECT_EQ(guessed.record_bytes, counted.record_bytes);
  const auto within_factor = [](double a, double b) { return a < 3 * b && b < 3 * a; };
  EXPECT_TRUE(within_factor(guessed.index_bytes, counted.index_bytes))
      << guessed.index_bytes << " " << counted.index_bytes;
  EXPECT_TRUE(within_factor(guessed.centroids.weights, counted.centroids.weights));
  EXPECT_TRUE(within_factor(guessed.labels.weights, counted.labels.weights))
      << guessed.labels.weights << " " << counted.labels.weights;
}

}  // namespace
}  // namespace dslide
