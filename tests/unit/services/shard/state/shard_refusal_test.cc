// What is wrong is refused by name, and changes nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;
using ShardRefusalTest = ShardCoreTest;

TEST_F(ShardRefusalTest, EveryRefusalLeavesTheDigest) {
  struct Case {
    const char* reason;
    std::function<Command()> make;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto scatter = [&](const std::function<void(ScatterCommand&)>& spoil) {
    return [this, spoil]() -> Command {
      ScatterCommand command = trainer_.Scatter(ScatterMode::kGradient);
      spoil(command);
      return command;
    };
  };
  const auto step = [&](const std::function<StepOp()>& op) {
    return [this, op]() -> Command { return trainer_.Step(op(), 1); };
  };
  const RowId foreign = [&] {
    for (uint32_t row = 0;; ++row) {
      if (trainer_.map().OwnerOf(RowId(row)) != ShardId(0)) return RowId(row);
    }
  }();
  const std::vector<Case> cases = {
      {reason::kUnknownTable, scatter([](auto& c) { c.table = "none"; })},
      {reason::kWrongDim, scatter([](auto& c) { c.rows.dim = 4; })},
      {reason::kBadSize, scatter([](auto& c) { c.rows.values.pop_back(); })},
      {reason::kWrongBiases, scatter([](auto& c) { c.rows.biases.clear(); })},
      {reason::kForeignRow, scatter([&](auto& c) { c.rows.rows.back() = RowId(kSampleLabels); })},
      {reason::kNotAscending, scatter([](auto& c) { c.rows.rows[1] = c.rows.rows[0]; })},
      {reason::kOverMagnitude, scatter([&](auto& c) { c.rows.values[3] = nan; })},
      {reason::kOverMagnitude, scatter([](auto& c) { c.rows.values[3] = INFINITY; })},
      {reason::kOverMagnitude, scatter([](auto& c) { c.rows.biases[0] = 101; })},
      {reason::kForeignRow, step([&] {
         EmbedForwardOp op = trainer_.EmbedForward();
         op.rows = {foreign};
         op.values = {1};
         op.offsets = {0, 1};
         return op;
       })},
      {reason::kOverMagnitude, step([&] {
         EmbedForwardOp op = trainer_.EmbedForward();
         op.values[1] = -1e6;
         return op;
       })},
      {reason::kWrongRole, step([&] {
         EmbedForwardOp op = trainer_.EmbedForward();
         op.table = "head";
         return op;
       })},
      {reason::kBadOffsets, step([&] {
         EmbedForwardOp op = trainer_.EmbedForward();
         op.offsets.back() += 1;
         return op;
       })},
      {reason::kBadSize, step([&] {
         EmbedForwardOp op = trainer_.EmbedForward();
         op.wanted.assign(3, 0xff);
         return op;
       })},
      {reason::kNoContext, step([&] { return trainer_.EmbedBackward(); })},
      {reason::kNoContext, step([&] { return trainer_.HeadBackward(); })},
      {reason::kWrongDim, step([&] {
         HeadForwardOp op = trainer_.HeadForward();
         op.dim = 4;
         return op;
       })},
      {reason::kBadFingerprint, step([&] {
         HeadForwardOp op = trainer_.HeadForward();
         op.fingerprints.pop_back();
         return op;
       })},
      {reason::kBadFingerprint, step([&] {
         HeadForwardOp op = trainer_.HeadForward();
         op.fingerprints[2] = 16;  // 4 bits
         return op;
       })},
      {reason::kForeignRow, step([&] {
         HeadForwardOp op = trainer_.HeadForward();
         op.labels[0] = foreign;
         return op;
       })},
      {reason::kOverMagnitude, step([&] {
         HeadForwardOp op = trainer_.HeadForward();
         op.hidden[5] = nan;
         return op;
       })},
      {reason::kWrongRows, step([&] {
         DenseScatterOp op = trainer_.DenseScatter();
         op.gradients.rows.pop_back();
         op.gradients.biases.pop_back();
         op.gradients.values.resize(op.gradients.rows.size() * kSampleDim);
         return op;
       })},
      {reason::kWrongRole, step([&]() -> StepOp { return DenseGatherOp{.table = "head"}; })},
  };
  const uint64_t before = core_->Digest();
  for (const Case& refused : cases) {
    const Answer answer = Do(refused.make());
    EXPECT_TRUE(absl::IsInvalidArgument(answer.reply->status)) << answer.reply->status;
    EXPECT_EQ(Reason(answer), refused.reason) << answer.reply->status;
    EXPECT_EQ(core_->Digest(), before) << refused.reason;
    EXPECT_EQ(core_->contexts().count(), 0) << refused.reason;
  }
  EXPECT_EQ(core_->mutations(), 0);
}

TEST_F(ShardRefusalTest, ARefusedBackwardKeepsItsContext) {
  Must(trainer_.HeadForward(), 1);
  HeadBackwardOp bad = trainer_.HeadBackward(3);
  EXPECT_EQ(Reason(Do(trainer_.Step(bad, 1))), reason::kWrongBatch);
  bad = trainer_.HeadBackward();
  bad.log_partitions[0] = INFINITY;
  EXPECT_EQ(Reason(Do(trainer_.Step(bad, 1))), reason::kNotFinite);
  Must(trainer_.HeadBackward(), 1);
  Must(trainer_.EmbedForward(), 1);
  EXPECT_EQ(Reason(Do(trainer_.Step(trainer_.EmbedBackward(5), 1))), reason::kWrongBatch);
  EmbedBackwardOp wide = trainer_.EmbedBackward();
  wide.dim = 16;
  EXPECT_EQ(Reason(Do(trainer_.Step(wide, 1))), reason::kWrongDim);
  Must(trainer_.EmbedBackward(), 1);
}

TEST_F(ShardRefusalTest, ALearningRateIsANumberThatDoesNotTurnWeightsAround) {
  for (const double rate : {-0.1, std::nan(""), double{INFINITY}}) {
    Must(trainer_.HeadForward(), 1);
    HeadBackwardOp head = trainer_.HeadBackward();
    head.learning_rate = rate;
    EXPECT_EQ(Reason(Do(trainer_.Step(head, 1))), reason::kOutOfRange);
    DenseScatterOp dense = trainer_.DenseScatter();
    dense.learning_rate = rate;
    EXPECT_EQ(Reason(Do(trainer_.Step(dense, 1))), reason::kOutOfRange);
    Must(trainer_.EmbedForward(), 1);
    EmbedBackwardOp embed = trainer_.EmbedBackward();
    embed.learning_rate = rate;
    EXPECT_EQ(Reason(Do(trainer_.Step(embed, 1))), reason::kOutOfRange);
  }
}

TEST_F(ShardRefusalTest, ForeignRowsAreNamedWithTheShard) {
  GatherCommand gather = trainer_.Gather();
  gather.rows = {RowId(kSampleLabels + 7)};
  const Answer beyond = Do(gather);
  EXPECT_THAT(std::string(beyond.reply->status.message()), HasSubstr("row 157"));
  EXPECT_THAT(std::string(beyond.reply->status.message()), HasSubstr("150 rows"));
}

}  // namespace
}  // namespace dslide::shard
