#include "client/cli/train/train_result.h"

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

TrainResult Sample() {
  TrainResult result;
  result.report.steps = 10;
  result.report.samples = 2000;
  result.report.epochs = 2;
  result.report.seconds = 4;
  result.report.last_loss = 3.5;
  result.report.active_pairs = 600000;
  result.report.distinct_rows = 12345;
  result.traffic.bytes_sent = 111;
  result.traffic.bytes_received = 222;
  result.training_traffic = result.traffic;
  result.dense_bytes_per_step = 1000;
  for (const auto& [k, precision] : {std::pair(1, 0.5), std::pair(3, 0.4), std::pair(5, 0.3)}) {
    result.accuracy.push_back({.k = k, .precision = precision});
  }
  result.baseline = PrecisionAtK{0.05, 0.04, 0.03};
  result.recall = {.samples = 100, .top_1_found = 90, .top_10 = 1000, .top_10_found = 750};
  result.peak_rss_bytes = 5e8;
  result.seed = 7;
  result.stages = {{"lookup", 1.5}};
  result.commit = "0123456789ab";
  return result;
}

TEST(TrainResultTest, TheJsonHasExactlyTheAgreedFieldsInOneLine) {
  const std::string line = TrainResultToJson(Sample());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::ordered_json::parse(line);
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  EXPECT_THAT(names,
              ElementsAre("samples_per_second", "steps", "epochs", "seconds", "loss", "first_loss",
                          "p_at_1", "p_at_3", "p_at_5", "ndcg_at_1", "ndcg_at_3", "ndcg_at_5",
                          "recall_at_1", "recall_at_3", "recall_at_5", "psp_at_1", "psp_at_3",
                          "psp_at_5", "psndcg_at_1", "psndcg_at_3", "psndcg_at_5",
                          "active_rows_per_sample", "distinct_rows_per_batch", "rejected_rows",
                          "hash_recall_top1", "hash_recall_top10", "bytes_sent", "bytes_received",
                          "dense_equivalent_bytes", "peak_rss_bytes", "stages", "seed", "commit"));
  EXPECT_EQ(json["stages"]["lookup"], 1.5);
  EXPECT_EQ(json["samples_per_second"], 500);
  EXPECT_EQ(json["active_rows_per_sample"], 300);
  EXPECT_EQ(json["distinct_rows_per_batch"], 1234.5);
  EXPECT_EQ(json["hash_recall_top1"], 0.9);
  EXPECT_EQ(json["hash_recall_top10"], 0.75);
  EXPECT_EQ(json["dense_equivalent_bytes"], 10000);
  EXPECT_EQ(json["p_at_3"], 0.4);
  EXPECT_EQ(json["seed"], 7);
}

TEST(TrainResultTest, WhatWasNotMeasuredIsNull) {
  TrainResult result;
  const auto json = nlohmann::json::parse(TrainResultToJson(result));
  EXPECT_TRUE(json["p_at_1"].is_null());
  EXPECT_EQ(json["samples_per_second"], 0);
  EXPECT_EQ(json["hash_recall_top1"], 1);  // nothing hashed, nothing missed
}

TEST(TrainResultTest, TheTextShowsTheBaselineAndTheBytesBesideDense) {
  EXPECT_THAT(
      TrainResultToText(Sample()),
      AllOf(HasSubstr("this model"), HasSubstr("0.5000"), HasSubstr("most frequent labels"),
            HasSubstr("0.0500"), HasSubstr("333 B (dense all-reduce: 10.0 kB, 30 times as much)"),
            HasSubstr("Peak memory              500 MB")));
}

TEST(TrainResultTest, HowManyTimesDenseWouldMoveHasNoExponent) {
  TrainResult result = Sample();
  result.dense_bytes_per_step = 333 * 122;  // ten steps beside 333 bytes
  EXPECT_THAT(TrainResultToText(result), HasSubstr(", 1,220 times as much)"));
  result.dense_bytes_per_step = 33290;
  EXPECT_THAT(TrainResultToText(result), HasSubstr(", 1,000 times as much)"));
}

}  // namespace
}  // namespace dslide::cli
