#include "services/shard/state/staleness_meter.h"

#include <gtest/gtest.h>

namespace dslide::shard {
namespace {

StepMark Forward(uint8_t client, int64_t step, const std::string& model = "m") {
  return {model, ClientId{client}, step, false};
}
StepMark Backward(uint8_t client, int64_t step, const std::string& model = "m") {
  return {model, ClientId{client}, step, true};
}

TEST(StalenessMeterTest, CountsTheUpdatesOfOthersInBetween) {
  StalenessMeter meter;
  EXPECT_EQ(meter.Applied(Forward(1, 1)), std::nullopt);
  EXPECT_EQ(meter.Applied(Backward(1, 1)), 0);
  meter.Applied(Forward(1, 2));
  meter.Applied(Forward(2, 1));
  meter.Applied(Forward(1, 3));
  EXPECT_EQ(meter.Applied(Backward(2, 1)), 0);
  EXPECT_EQ(meter.Applied(Backward(1, 2)), 1);
  EXPECT_EQ(meter.Applied(Backward(1, 3)), 2);
}

TEST(StalenessMeterTest, ModelsDoNotMix) {
  StalenessMeter meter;
  meter.Applied(Forward(1, 1, "a"));
  meter.Applied(Forward(2, 1, "b"));
  EXPECT_EQ(meter.Applied(Backward(2, 1, "b")), 0);
  EXPECT_EQ(meter.Applied(Backward(1, 1, "a")), 0);
}

TEST(StalenessMeterTest, AForwardPassThatIsForgottenCountsNothing) {
  StalenessMeter meter;
  for (size_t step = 0; step <= StalenessMeter::kMaxOpen; ++step) {
    meter.Applied(Forward(1, static_cast<int64_t>(step)));
  }
  EXPECT_EQ(meter.Applied(Backward(1, 0)), std::nullopt);
  EXPECT_EQ(meter.Applied(Backward(1, 1)), 1);  // the update above counted all the same
  EXPECT_EQ(meter.Applied(Backward(9, 9)), std::nullopt);
}

TEST(StalenessMeterTest, ARepeatedForwardPassCountsFromTheLastOne) {
  StalenessMeter meter;
  meter.Applied(Forward(1, 1));
  meter.Applied(Backward(2, 5));
  meter.Applied(Forward(1, 1));
  EXPECT_EQ(meter.Applied(Backward(1, 1)), 0);
}

TEST(StalenessMeterTest, MarksAreOfHeadPassesOnly) {
  StepCommand command;
  command.envelope.model = "m";
  command.step = 7;
  command.op = HeadBackwardOp();
  const auto mark = MarkOf(command);
  ASSERT_TRUE(mark.has_value());
  EXPECT_TRUE(mark->backward);
  EXPECT_EQ(mark->step, 7);
  EXPECT_EQ(mark->model, "m");
  command.op = EmbedBackwardOp();
  EXPECT_FALSE(MarkOf(command).has_value());
  EXPECT_FALSE(MarkOf(HelloCommand()).has_value());
}

}  // namespace
}  // namespace dslide::shard
