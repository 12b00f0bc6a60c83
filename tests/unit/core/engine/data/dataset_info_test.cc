#include "core/engine/data/dataset_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide {
namespace {

std::unique_ptr<SparseDataset> ParseSet(const std::string& text) {
  auto data = SparseDataset::FromText("data.txt", text, {});
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

TEST(DatasetInfoTest, CountsWhatIsThere) {
  const auto data = ParseSet("4 10 6\n0,1,5 2:1 3:1\n1 2:1\n 7:1 8:1 9:1\n1\n");
  const absl::StatusOr<DatasetInfo> info = DescribeDataset(*data, {1});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->points, 4);
  EXPECT_EQ(info->features, 10);
  EXPECT_EQ(info->labels, 6);
  EXPECT_DOUBLE_EQ(info->features_per_point, 1.5);
  EXPECT_DOUBLE_EQ(info->labels_per_point, 1.25);
  EXPECT_EQ(info->max_features_per_point, 3);
  EXPECT_EQ(info->max_labels_per_point, 3);
  EXPECT_EQ(info->points_without_labels, 1);
  EXPECT_EQ(info->points_without_features, 1);
  EXPECT_EQ(info->features_used, 5);
  EXPECT_EQ(info->labels_used, 3);
}

TEST(DatasetInfoTest, CountsThePointsOfEachLabel) {
  const auto data = ParseSet("3 2 5\n4,2\n \n4,3,0\n");
  const absl::StatusOr<LabelCounts> counts = CountLabels(*data, {2});
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->points, 3);
  EXPECT_THAT(counts->of_label, testing::ElementsAre(1, 0, 1, 1, 2));
  EXPECT_EQ(MostFrequentBaseline(*counts, *data, {1})->at_1,
            MostFrequentBaseline(*data, *data, {1})->at_1);
  const auto other = ParseSet("1 2 6\n4\n");
  EXPECT_EQ(MostFrequentBaseline(*counts, *other, {1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DatasetInfoTest, TheBaselinePredictsTheMostFrequentLabels) {
  // Frequencies in train: 1 three times, 0 twice, 2 once, then 3, 4, 5 by id.
  const auto train = ParseSet("3 1 6\n0,1\n0,1\n1,2\n");
  const auto test = ParseSet("4 1 6\n1\n0,2\n5\n \n");
  const absl::StatusOr<PrecisionAtK> p = MostFrequentBaseline(*train, *test, {1});
  ASSERT_TRUE(p.ok()) << p.status();
  // Over the three points with labels.
  EXPECT_DOUBLE_EQ(p->at_1, 1.0 / 3);
  EXPECT_DOUBLE_EQ(p->at_3, 3.0 / 9);
  EXPECT_DOUBLE_EQ(p->at_5, 3.0 / 15);
}

TEST(DatasetInfoTest, DataWithoutAnyLabelIsRefused) {
  EXPECT_TRUE(CheckHasLabels(*ParseSet("3 1 2\n \n \n1\n")).ok());
  EXPECT_EQ(CheckHasLabels(*ParseSet("2 1 2\n 0:1\n \n")).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DatasetInfoTest, SamplesTheSizesOfPoints) {
  const absl::StatusOr<PointSizes> sizes =
      SamplePointSizes(*ParseSet("2 3 2\n0,1 0:1 1:1 2:1\n \n"));
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->features, 1.5);
  EXPECT_EQ(sizes->labels, 1.0);
}

TEST(DatasetInfoTest, FewerThanFiveLabelsAreEnough) {
  const auto data = ParseSet("1 1 2\n0,1\n");
  const absl::StatusOr<PrecisionAtK> p = MostFrequentBaseline(*data, *data, {1});
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_DOUBLE_EQ(p->at_1, 1.0);
  EXPECT_DOUBLE_EQ(p->at_5, 2.0 / 5);
}

TEST(DatasetInfoTest, RefusesPartsOfDifferentData) {
  const auto train = ParseSet("1 1 2\n0\n");
  const auto test = ParseSet("1 1 3\n0\n");
  EXPECT_EQ(MostFrequentBaseline(*train, *test, {1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DatasetInfoTest, TheNumberOfThreadsChangesNothing) {
  CounterRng rng(4);
  std::string text = "9000 30 40\n";
  for (int i = 0; i < 9000; ++i) {
    absl::StrAppend(&text, rng.NextBelow(40), " ", rng.NextBelow(30), ":1\n");
  }
  const auto data = ParseSet(text);
  EXPECT_EQ(MostFrequentBaseline(*data, *data, {1})->at_5,
            MostFrequentBaseline(*data, *data, {3})->at_5);
  EXPECT_EQ(DescribeDataset(*data, {1})->features_per_point,
            DescribeDataset(*data, {3})->features_per_point);
}

}  // namespace
}  // namespace dslide
