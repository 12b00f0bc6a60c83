#include "client/cli/tune/tune_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;

TuneResult Example() {
  TuneResult result;
  result.measured = {
      {.trial = 0, .points = 400, .quality = 0.5, .seconds = 1},
      {.trial = 1, .points = 400, .quality = 0.4, .settings = {{"linear.cost", 0.5}}},
      {.trial = 2, .points = 400, .quality = 0.6, .settings = {{"trees.trees", 6}, {"network", 1}}},
      {.trial = 0, .points = 1200, .quality = 0.7}};
  result.winner = result.measured[2];
  result.judged_points = 100;
  result.rung_points = {400, 1200};
  result.left = {0, 1};
  return result;
}

TEST(TuneResultTest, MostPointsComeFirstThenTheBest) {
  const nlohmann::json json = nlohmann::json::parse(TuneResultToJson(Example()));
  std::vector<std::pair<int, int>> order;
  for (const auto& measured : json["measured"]) {
    order.emplace_back(measured["points"], measured["trial"]);
  }
  EXPECT_EQ(order, (std::vector<std::pair<int, int>>{{1200, 0}, {400, 2}, {400, 0}, {400, 1}}));
  EXPECT_EQ(json["winner"]["settings"], (nlohmann::json{{"trees.trees", 6}, {"network", 1}}));
  EXPECT_TRUE(json["p_at_1"].is_null());
}

TEST(TuneResultTest, TheTextSaysWhatIsBestAndWhatWasLeftUndone) {
  TuneResult result = Example();
  CompareWithDefault({1, 1, 0, 1}, {1, 0, 0, 0}, result);
  EXPECT_DOUBLE_EQ(result.gain, 0.5);
  EXPECT_DOUBLE_EQ(result.gain_error, 0.25);
  const std::string text = TuneResultToText(result);
  EXPECT_THAT(text, HasSubstr("Best: trial 2, trees.trees 6, network 1.\nIt is better than the "
                              "default by 0.5000, with a standard error of 0.2500"));
  EXPECT_THAT(text, HasSubstr("Not begun: 1 on 1,200 points."));
  EXPECT_THAT(text, HasSubstr("  the default\n"));
}

}  // namespace
}  // namespace dslide::cli
