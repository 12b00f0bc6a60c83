// The readers on real data sets, where a machine has them. Figures are those the sets' own
// descriptions state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <ostream>
#include <string>

#include "core/engine/data/dataset_info.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/engine/data/text_dataset.h"

namespace dslide {
namespace {

constexpr Parallelism kTwoThreads{2};

// $DSLIDE_SHARED_DATA, or a folder beside the project.
std::string SharedData() {
  const char* folder = getenv("DSLIDE_SHARED_DATA");
  return folder != nullptr ? folder : std::string(DSLIDE_SOURCE_DIR) + "/../shared/data";
}

#define SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "skipped: shared data not present: " << path

struct RealSet {
  const char* name;
  const char* train;
  const char* test;
  DatasetInfo info;  // of the training part, as far as stated
  int64_t test_points;
  PrecisionAtK baseline;
};

// For the names of the tests.
void PrintTo(const RealSet& set, std::ostream* out) { *out << set.name; }

class SharedDataTest : public testing::TestWithParam<RealSet> {};

TEST_P(SharedDataTest, ReadsAndScoresAsDescribed) {
  const RealSet& expected = GetParam();
  const std::string train_path = SharedData() + "/" + expected.train;
  SKIP_WITHOUT(train_path);
  SparseDatasetOptions options;
  options.parallelism = kTwoThreads;
  const auto train = SparseDataset::Open(train_path, options);
  const auto test = SparseDataset::Open(SharedData() + "/" + expected.test, options);
  ASSERT_TRUE(train.ok()) << train.status();
  ASSERT_TRUE(test.ok()) << test.status();
  const absl::StatusOr<DatasetInfo> info = DescribeDataset(**train, kTwoThreads);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->points, expected.info.points);
  EXPECT_EQ(info->features, expected.info.features);
  EXPECT_EQ(info->labels, expected.info.labels);
  EXPECT_NEAR(info->features_per_point, expected.info.features_per_point, 0.051);
  EXPECT_NEAR(info->labels_per_point, expected.info.labels_per_point, 0.0051);
  EXPECT_EQ(info->points_without_labels, expected.info.points_without_labels);
  EXPECT_EQ((*test)->num_points(), expected.test_points);
  const absl::StatusOr<PrecisionAtK> p = MostFrequentBaseline(**train, **test, kTwoThreads);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_NEAR(p->at_1, expected.baseline.at_1, 6e-5);
  EXPECT_NEAR(p->at_3, expected.baseline.at_3, 6e-5);
  EXPECT_NEAR(p->at_5, expected.baseline.at_5, 6e-5);
}

DatasetInfo Stated(int64_t points, int64_t features, int64_t labels, double features_per_point,
                   double labels_per_point, int64_t without_labels) {
  DatasetInfo info;
  info.points = points;
  info.features = features;
  info.labels = labels;
  info.features_per_point = features_per_point;
  info.labels_per_point = labels_per_point;
  info.points_without_labels = without_labels;
  return info;
}

INSTANTIATE_TEST_SUITE_P(RealSets, SharedDataTest,
                         testing::Values(RealSet{"Citeulike",
                                                 "citeulike-t/train.txt.xz",
                                                 "citeulike-t/test.txt.xz",
                                                 Stated(20610, 20000, 52946, 18.9, 11.21, 0),
                                                 5334,
                                                 {0.0720, 0.0613, 0.0591}},
                                         RealSet{"Delicious",
                                                 "delicious-bibtex/delicious_train.txt.xz",
                                                 "delicious-bibtex/delicious_test.txt.xz",
                                                 Stated(12920, 500, 983, 18.5, 19.05, 10),
                                                 3185,
                                                 // Over the 3,181 points with labels.
                                                 {0.4080, 0.3789, 0.3474}},
                                         RealSet{"Bibtex",
                                                 "delicious-bibtex/bibtex_train.txt.xz",
                                                 "delicious-bibtex/bibtex_test.txt.xz",
                                                 Stated(4880, 1836, 159, 68.5, 2.38, 0),
                                                 2515,
                                                 {0.1396, 0.0928, 0.0717}}),
                         [](const testing::TestParamInfo<RealSet>& set) { return set.param.name; });

TEST(SharedTextTest, ReadsTheBooks) {
  const std::string path = SharedData() + "/books-text/train.txt.xz";
  SKIP_WITHOUT(path);
  TextDatasetOptions options;
  options.parallelism = kTwoThreads;
  const auto train = TextDataset::Open(path, options);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->total_words(), 17819068);
  EXPECT_EQ((*train)->num_features(), 44740);  // words that occur five times or more
  EXPECT_EQ((*train)->FeatureName(0), "the");
  options.vocabulary = (*train)->vocabulary();
  const auto test = TextDataset::Open(SharedData() + "/books-text/test.txt.xz", options);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->total_words(), 1109614);
  SparseBatch batch;
  ASSERT_TRUE((*train)->ReadSamples({0, (*train)->num_points() - 1}, &batch).ok());
  EXPECT_GE(batch.LabelsOf(0).size(), 1u);  // the first word of a book has right neighbours only
  EXPECT_LE(batch.LabelsOf(0).size(), 2u);
}

}  // namespace
}  // namespace dslide
