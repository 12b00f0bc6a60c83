#include "client/cli/train/accuracy_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dslide::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AccuracyReportTest, CutoffsAreAscendingWithOneThreeAndFive) {
  EXPECT_THAT(*CheckAccuracyOptions({}), ElementsAre(1, 3, 5));
  EXPECT_THAT(*CheckAccuracyOptions({.cutoffs = {20, 3, 2, 20}}), ElementsAre(1, 2, 3, 5, 20));
  for (const int64_t k : {int64_t{0}, int64_t{1025}}) {
    EXPECT_THAT(std::string(CheckAccuracyOptions({.cutoffs = {1, k}}).status().message()),
                AllOf(HasSubstr("--cutoffs"), HasSubstr("must be in [1, 1024]")));
  }
  EXPECT_THAT(std::string(CheckAccuracyOptions({.propensity = {.a = 0}}).status().message()),
              HasSubstr("--propensity-a"));
}

TEST(AccuracyReportTest, WhatWasNotMeasuredIsNull) {
  nlohmann::ordered_json json;
  AddAccuracy({1}, {{.k = 1, .precision = 0.5, .ndcg = 0.4, .recall = 0.3}}, &json);
  EXPECT_EQ(
      json.dump(),
      R"({"p_at_1":0.5,"ndcg_at_1":0.4,"recall_at_1":0.3,"psp_at_1":null,"psndcg_at_1":null})");
  nlohmann::ordered_json empty;
  AddAccuracy({1, 3}, {}, &empty);
  EXPECT_EQ(empty.size(), 10u);
  EXPECT_TRUE(empty["recall_at_3"].is_null());
}

TEST(AccuracyReportTest, TheTableHasAColumnForEachCutoff) {
  const std::vector<AccuracyAtK> accuracy = {
      {.k = 1, .precision = 0.5, .ndcg = 0.5, .recall = 0.25, .psp = 0.125, .psndcg = 0.125},
      {.k = 10, .precision = 0.25, .ndcg = 0.4, .recall = 0.75, .psp = 0.5, .psndcg = 0.25}};
  EXPECT_EQ(AccuracyTable(accuracy, PrecisionAtK{0.05, 0.04, 0.03}),
            "precision on the test points  P@1     P@10\n"
            "this model                    0.5000  0.2500\n"
            "most frequent labels          0.0500  -\n"
            "\n"
            "other metrics  k = 1   k = 10\n"
            "nDCG@k         0.5000  0.4000\n"
            "recall@k       0.2500  0.7500\n"
            "PSP@k          0.1250  0.5000\n"
            "PSnDCG@k       0.1250  0.2500");
  EXPECT_THAT(AccuracyTable({{.k = 1}}, std::nullopt),
              Not(testing::AnyOf(HasSubstr("PSP"), HasSubstr("most frequent"))));
}

}  // namespace
}  // namespace dslide::cli
