#include "core/engine/data/sources/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "core/engine/data/dataset_info.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/engine/data/transform.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

SyntheticOptions Small() {
  SyntheticOptions options;
  options.points = 3000;
  options.features = 2000;
  options.labels = 500;
  options.features_per_point = 20;
  options.labels_per_point = 2.5;
  return options;
}

std::unique_ptr<SparseDataset> Generate(const TempDir& dir, const SyntheticOptions& options) {
  const std::string path = dir.File("data.txt");
  const absl::Status status = GenerateSynthetic(options, path);
  EXPECT_TRUE(status.ok()) << status;
  SparseDatasetOptions read;
  read.count_document_frequency = true;
  auto data = SparseDataset::Open(path, read);  // checks every line
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

SparseBatch ReadGenerated(const Dataset& data) {
  std::vector<int64_t> points(static_cast<size_t>(data.num_points()));
  std::iota(points.begin(), points.end(), 0);
  SparseBatch batch;
  EXPECT_TRUE(data.ReadSamples(points, &batch).ok());
  return batch;
}

TEST(SyntheticTest, HasTheCountsAskedFor) {
  TempDir dir;
  const auto data = Generate(dir, Small());
  const absl::StatusOr<DatasetInfo> info = DescribeDataset(*data, {1});
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->points, 3000);
  EXPECT_EQ(info->features, 2000);
  EXPECT_EQ(info->labels, 500);
  // Uniform counts: a standard deviation of the mean below 0.12 (features) and 0.02 (labels).
  EXPECT_NEAR(info->features_per_point, 20, 0.6);
  EXPECT_NEAR(info->labels_per_point, 2.5, 0.1);
  EXPECT_EQ(info->points_without_labels, 0);
  EXPECT_EQ(info->points_without_features, 0);
}

TEST(SyntheticTest, TheNumberOfThreadsChangesNoByte) {
  TempDir dir;
  SyntheticOptions options = Small();
  ASSERT_TRUE(GenerateSynthetic(options, dir.File("one")).ok());
  options.parallelism.threads = 3;
  ASSERT_TRUE(GenerateSynthetic(options, dir.File("many")).ok());
  EXPECT_TRUE(ReadFile(dir.File("one")) == ReadFile(dir.File("many")));
  options.seed = 2;
  ASSERT_TRUE(GenerateSynthetic(options, dir.File("other")).ok());
  EXPECT_FALSE(ReadFile(dir.File("one")) == ReadFile(dir.File("other")));
}

TEST(SyntheticTest, PartsAreRangesOfOneSequence) {
  TempDir dir;
  SyntheticOptions options = Small();
  options.points = 30;
  ASSERT_TRUE(GenerateSynthetic(options, dir.File("whole")).ok());
  options.first_point = 10;
  options.points = 20;
  ASSERT_TRUE(GenerateSynthetic(options, dir.File("part")).ok());
  const std::string whole = ReadFile(dir.File("whole"));
  const std::string part = ReadFile(dir.File("part"));
  const std::string body = part.substr(part.find('\n') + 1);
  EXPECT_EQ(whole.substr(whole.size() - body.size()), body);
}

TEST(SyntheticTest, WorksAtItsNarrowestAndDensest) {
  TempDir dir;
  SyntheticOptions options;
  options.points = 200;
  options.features = 16;
  options.labels = 2;
  options.features_per_point = 8;
  options.labels_per_point = 1;
  EXPECT_EQ(Generate(dir, options)->num_points(), 200);
  options.labels = 3;
  options.labels_per_point = 1.5;
  EXPECT_EQ(Generate(dir, options)->num_points(), 200);
}

// Ten nearest neighbours by tf-idf cosine, most weight wins: a simple learner must do far better
// than always answering the most frequent label.
TEST(SyntheticTest, CanBeLearnt) {
  TempDir dir;
  SyntheticOptions options = Small();
  const auto train = Generate(dir, options);
  SparseBatch known = ReadGenerated(*train);
  const std::vector<float> idf = *ComputeIdf(*train, TrainingSplit::All(3000), {1});
  ASSERT_TRUE(ApplyTransform(ValueTransform::kTfIdf, idf, &known).ok());
  options.first_point = 3000;
  options.points = 200;
  const auto test = Generate(dir, options);
  SparseBatch asked = ReadGenerated(*test);
  ASSERT_TRUE(ApplyTransform(ValueTransform::kTfIdf, idf, &asked).ok());
  int hits = 0;
  for (int64_t q = 0; q < asked.samples(); ++q) {
    std::map<uint32_t, float> query;
    for (size_t i = 0; i < asked.FeaturesOf(q).size(); ++i) {
      query[asked.FeaturesOf(q)[i].value()] = asked.ValuesOf(q)[i];
    }
    std::vector<std::pair<float, int64_t>> near;
    for (int64_t k = 0; k < known.samples(); ++k) {
      float dot = 0;
      for (size_t i = 0; i < known.FeaturesOf(k).size(); ++i) {
        const auto found = query.find(known.FeaturesOf(k)[i].value());
        if (found != query.end()) dot += found->second * known.ValuesOf(k)[i];
      }
      near.emplace_back(-dot, k);
    }
    std::partial_sort(near.begin(), near.begin() + 10, near.end());
    std::map<uint32_t, float> votes;
    for (int i = 0; i < 10; ++i) {
      for (const RowId label : known.LabelsOf(near[i].second))
        votes[label.value()] -= near[i].first;
    }
    const auto best = std::max_element(votes.begin(), votes.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    const auto labels = asked.LabelsOf(q);
    hits += std::binary_search(labels.begin(), labels.end(), RowId(best->first));
  }
  const double baseline = MostFrequentBaseline(*train, *test, {1})->at_1;
  EXPECT_LT(baseline, 0.2);
  EXPECT_GT(hits / 200.0, 0.6);
}

TEST(SyntheticTest, RefusesOptionsOutOfRange) {
  const auto message = [](auto change) {
    SyntheticOptions options = Small();
    change(&options);
    return std::string(options.Validate().message());
  };
  EXPECT_EQ(message([](auto* o) { o->points = 0; }), "points 0 is outside [1, 281474976710656]");
  EXPECT_EQ(message([](auto* o) { o->features = 15; }), "features 15 is outside [16, 2147483648]");
  EXPECT_EQ(message([](auto* o) { o->labels = 1; }), "labels 1 is outside [2, 2147483648]");
  EXPECT_EQ(message([](auto* o) { o->features_per_point = 1001; }),
            "features_per_point 1001 is outside [1, 1000]");
  EXPECT_EQ(message([](auto* o) { o->labels_per_point = 0.5; }),
            "labels_per_point 0.5 is outside [1, 250]");
  EXPECT_EQ(message([](auto* o) { o->first_point = -1; }),
            "first_point -1 is outside [0, 281474976710656]");
  TempDir dir;
  EXPECT_EQ(GenerateSynthetic(Small(), dir.File("no/such/folder")).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dslide
