#include <gtest/gtest.h>

#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/step_codec.h"
#include "tests/unit/core/wire/steps/decoded_step.h"

namespace dslide::wire {
namespace {

// 0 is a rate: that of a schedule that has ended.
const LearningRate kRates[] = {std::nullopt, 0.0, 0.1};

RowBlock OneRow() { return {.rows = {RowId(1)}, .dim = 2, .values = {1, 2}, .biases = {3}}; }

template <typename Op>
LearningRate RateAfterTheWire(Op op, LearningRate rate) {
  op.learning_rate = rate;
  v1::StepRequest request;
  EncodeStepRequest({.envelope = {.job = "job", .sequence = 1, .first_incomplete = 1, .model = "m"},
                     .step = 1,
                     .first_open_step = 1,
                     .op = op},
                    {}, &request);
  const auto decoded = DecodedStep(request);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return std::get<Op>(decoded->op).learning_rate;
}

TEST(LearningRateCodecTest, UpdatesOfStepsHaveOneOrNone) {
  for (const LearningRate rate : kRates) {
    EXPECT_EQ(
        RateAfterTheWire(HeadBackwardOp{.table = "t", .log_partitions = {1}, .scale = 1}, rate),
        rate);
    EXPECT_EQ(RateAfterTheWire(EmbedBackwardOp{.table = "t", .dim = 2, .gradient = {1, 2}}, rate),
              rate);
    EXPECT_EQ(RateAfterTheWire(DenseScatterOp{.table = "t", .gradients = OneRow()}, rate), rate);
  }
}

TEST(LearningRateCodecTest, ScattersHaveOneOrNone) {
  for (const LearningRate rate : kRates) {
    ScatterCommand command;
    command.envelope = {.job = "job", .sequence = 1, .first_incomplete = 1, .model = "m"};
    command.table = "t";
    command.rows = OneRow();
    command.learning_rate = rate;
    const auto messages = EncodeScatter(command, ActivationType::kF32, 1 << 20);
    ASSERT_EQ(messages.size(), 1u);
    ScatterAssembler assembler(1 << 20);
    ASSERT_TRUE(assembler.Add(messages[0]).ok());
    const auto decoded = std::move(assembler).Finish();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->learning_rate, rate);
  }
}

}  // namespace
}  // namespace dslide::wire
