#include "client/cli/train/label_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/cli/train/spec_options.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LabelFilterTest : public ::testing::Test {
 protected:
  LabelFilterTest() {
    data_ = *SparseDataset::FromText("data", "3 3 5\n0,4 1:1\n1 0:2 2:1\n2 2:1\n", {});
    SpecOptions options;
    options.network = true;
    model_.spec = *ResolveSpec(options, *data_);
    model_.features.idf = {1, 1, 1};
    model_.features.names = {"a", "b", "c"};
    model_.labels = {"x", "b", "y", "a", "z"};
  }

  // What is left for each point of a model that ranks 4, 3, 2, 1, 0.
  std::vector<std::vector<RowId>> Left(LabelFilter& filter, int64_t k) {
    SparseBatch samples;
    const std::vector<int64_t> points = {0, 1, 2};
    EXPECT_TRUE(data_->ReadSamples(points, &samples).ok());
    const auto ranked = filter.Rank(samples, points, k,
                                    [&](SparseBatch, absl::Span<const int64_t> numbers,
                                        int64_t most) -> absl::StatusOr<std::vector<Prediction>> {
                                      Prediction all;
                                      for (uint32_t l = 5; l-- > 0 && most-- > 0;) {
                                        all.labels.emplace_back(l);
                                        all.logits.push_back(static_cast<float>(l));
                                      }
                                      return std::vector<Prediction>(numbers.size(), all);
                                    });
    std::vector<std::vector<RowId>> left;
    for (const Prediction& prediction : *ranked) left.push_back(prediction.labels);
    return left;
  }

  absl::StatusOr<LabelFilter> WithPairs(const std::string& pairs) {
    const std::string path = absl::StrCat(testing::TempDir(), "/pairs.", getpid());
    std::ofstream(path) << pairs;
    absl::StatusOr<LabelFilter> filter = LabelFilter::Create({.filter = path}, model_, 3);
    unlink(path.c_str());
    return filter;
  }

  std::unique_ptr<SparseDataset> data_;
  StoredModel model_;
};

TEST_F(LabelFilterTest, InputsAreLeftOutByName) {
  auto filter = LabelFilter::Create({.exclude_inputs = true}, model_, 3);
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_THAT(Left(*filter, 2),
              ElementsAre(ElementsAre(RowId(4), RowId(3)), ElementsAre(RowId(4), RowId(2)),
                          ElementsAre(RowId(4), RowId(3))));
  EXPECT_EQ(filter->counts().predictions, 1);
  EXPECT_EQ(filter->counts().true_labels, 0);
}

TEST_F(LabelFilterTest, WithoutNamesAFeatureIsTheLabelOfItsId) {
  model_.features.names = {"", "", ""};
  model_.labels.clear();
  auto filter = LabelFilter::Create({.exclude_inputs = true}, model_, 3);
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_THAT(Left(*filter, 5)[1], ElementsAre(RowId(4), RowId(3), RowId(1)));
  EXPECT_EQ(filter->counts().predictions, 4);
  EXPECT_EQ(filter->counts().true_labels, 1);  // label 2 of the third point
}

TEST_F(LabelFilterTest, PairsAreLeftOut) {
  auto filter = WithPairs("2 4\n0\t4 \r\n\n0 3\n0 4\n");
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_THAT(Left(*filter, 1),
              ElementsAre(ElementsAre(RowId(2)), ElementsAre(RowId(4)), ElementsAre(RowId(3))));
  EXPECT_EQ(filter->counts().predictions, 2);
  EXPECT_EQ(filter->counts().true_labels, 1);
}

TEST_F(LabelFilterTest, WhatIsWrongIsNamed) {
  for (const auto& [pairs, place] :
       {std::pair("0 1\n3 1\n", ":2:1: found \"3 1\""), std::pair("0 5\n", ":1:1:"),
        std::pair("0\n", ":1:1:"), std::pair("-1 0\n", ":1:1:"), std::pair("0 1 2\n", ":1:1:")}) {
    EXPECT_THAT(std::string(WithPairs(pairs).status().message()), HasSubstr(place));
  }
  model_.labels = {"v", "w", "x", "y", "z"};
  EXPECT_THAT(
      std::string(LabelFilter::Create({.exclude_inputs = true}, model_, 3).status().message()),
      HasSubstr("no feature of the model has the name of a label"));
  model_.labels.clear();
  EXPECT_THAT(
      std::string(LabelFilter::Create({.exclude_inputs = true}, model_, 3).status().message()),
      HasSubstr("names of features only"));
}

}  // namespace
}  // namespace dslide::cli
