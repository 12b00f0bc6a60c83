#include "services/shard/sequencer/step_gate.h"

#include <gtest/gtest.h>

namespace dslide::shard {
namespace {

constexpr ClientId kStepGateAnn = {1};
constexpr ClientId kStepGateBob = {2};

StepCommand GatedStep(const ClientId& client, int64_t step, StepOp op, int64_t first_open = 0) {
  StepCommand command;
  command.envelope.client = client;
  command.step = step;
  command.first_open_step = first_open;
  command.op = std::move(op);
  return command;
}

class StepGateTest : public ::testing::Test {
 protected:
  // As the core does when it applies a whole step.
  void Train(const ClientId& client, int64_t step) {
    Forward(client, step);
    Finish(client, step);
  }
  void Forward(const ClientId& client, int64_t step) {
    contexts_.Put(client, step, "m", "input", FeatureBatch());
  }
  void Finish(const ClientId& client, int64_t step) {
    contexts_.Changed(client, step);
    contexts_.Erase(client, step, "m", "input");
  }
  bool Waits(const Command& command) const { return gate_.MustWait(command, contexts_); }

  StepContexts contexts_{int64_t{1} << 30};
  StepGate gate_;
};

TEST_F(StepGateTest, HoldsNothingWhileItIsOpen) {
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 7, HeadBackwardOp())));
  gate_.Freeze(1);
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 7, HeadBackwardOp())));
  gate_.Open();
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 7, HeadBackwardOp())));
}

TEST_F(StepGateTest, HoldsChangesOfNewStepsAndLetsReadsAndBegunStepsPass) {
  Train(kStepGateAnn, 3);
  Forward(kStepGateAnn, 4);
  contexts_.Changed(kStepGateAnn, 4);
  gate_.Freeze(1);
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 5, EmbedForwardOp())));
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 5, HeadForwardOp())));
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 5, DenseGatherOp())));
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 4, EmbedBackwardOp())));
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 5, HeadBackwardOp())));
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 5, EmbedBackwardOp())));
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 5, DenseScatterOp())));
  EXPECT_FALSE(Waits(GatherCommand()));
  EXPECT_FALSE(Waits(HelloCommand()));
  gate_.Admit(kStepGateAnn, 5);
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 5, HeadBackwardOp())));
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 6, HeadBackwardOp())));
}

TEST_F(StepGateTest, WhereTheAdmittedStepsAreCompleteReadsOfLaterOnesWaitToo) {
  Train(kStepGateAnn, 3);
  Forward(kStepGateAnn, 4);
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 4);
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 5, EmbedForwardOp())))
      << "the end of step 4 may stand behind it";
  Finish(kStepGateAnn, 4);
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 5, EmbedForwardOp())));
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 4, EmbedForwardOp())));
  EXPECT_FALSE(Waits(GatedStep(kStepGateBob, 5, EmbedForwardOp())))
      << "it has not begun to change rows";
  Train(kStepGateBob, 4);
  EXPECT_TRUE(Waits(GatedStep(kStepGateBob, 5, EmbedForwardOp())));
  gate_.Admit(kStepGateAnn, 5);  // another shard cannot do without
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 6, EmbedForwardOp())));
}

TEST_F(StepGateTest, NothingOfAClientPassesWhatWaitsOfIt) {
  gate_.Freeze(1);
  const StepCommand held = GatedStep(kStepGateAnn, 1, HeadBackwardOp());
  ASSERT_TRUE(Waits(held));
  gate_.NoteWaiting(held);
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 2, EmbedForwardOp())));
  ScatterCommand scatter;
  scatter.envelope.client = kStepGateAnn;
  EXPECT_TRUE(Waits(scatter));
  EXPECT_FALSE(Waits(GatedStep(kStepGateBob, 2, EmbedForwardOp())));
  gate_.NoteNoneWaiting(kStepGateAnn);
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 2, EmbedForwardOp())));
}

TEST_F(StepGateTest, SaysWhichStepsHaveChangedRows) {
  EXPECT_TRUE(StepGate::Changed(contexts_).empty());
  Train(kStepGateAnn, 3);
  Forward(kStepGateBob, 9);  // has read only
  const auto changed = StepGate::Changed(contexts_);
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].client, kStepGateAnn);
  EXPECT_EQ(changed[0].step, 3);
}

TEST_F(StepGateTest, KnowsWhetherAStepIsBegunAndNotFinished) {
  EXPECT_FALSE(StepGate::AnyBegun(contexts_));
  Train(kStepGateAnn, 3);
  Forward(kStepGateAnn, 4);
  EXPECT_FALSE(StepGate::AnyBegun(contexts_)) << "step 4 has only read";
  contexts_.Changed(kStepGateAnn, 4);
  EXPECT_TRUE(StepGate::AnyBegun(contexts_));
  Finish(kStepGateAnn, 4);
  EXPECT_FALSE(StepGate::AnyBegun(contexts_));
}

TEST_F(StepGateTest, AStepIsCompleteWhenItsContextsAreGone) {
  Forward(kStepGateAnn, 4);
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 4);
  ASSERT_EQ(gate_.Incomplete(contexts_).size(), 1u);
  EXPECT_EQ(gate_.Incomplete(contexts_)[0].step, 0);
  Finish(kStepGateAnn, 4);
  EXPECT_TRUE(gate_.Incomplete(contexts_).empty());
}

// Without contexts only the client can say that a step is over.
TEST_F(StepGateTest, AStepWithoutContextsIsCompleteWhenTheClientGoesOn) {
  contexts_.Changed(kStepGateAnn, 4);
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 4);
  EXPECT_EQ(gate_.Incomplete(contexts_).size(), 1u);
  gate_.NoteWaiting(GatedStep(kStepGateAnn, 5, DenseScatterOp(), /*first_open=*/5));
  EXPECT_TRUE(gate_.Incomplete(contexts_).empty());
}

// The end of step 4 stands behind the change of step 5: that one has to be admitted as well.
TEST_F(StepGateTest, SaysWhatStandsInTheWay) {
  Forward(kStepGateAnn, 4);
  Forward(kStepGateAnn, 5);
  Forward(kStepGateAnn, 6);
  contexts_.Changed(kStepGateAnn, 4);
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 4);
  gate_.NoteWaiting(GatedStep(kStepGateAnn, 5, HeadBackwardOp(), /*first_open=*/4));
  gate_.NoteWaiting(GatedStep(kStepGateAnn, 6, HeadBackwardOp(), /*first_open=*/4));
  gate_.NoteWaiting(GatedStep(kStepGateAnn, 7, HeadForwardOp(), /*first_open=*/4));
  gate_.NoteWaiting(GatedStep(kStepGateAnn, 4, EmbedBackwardOp(), /*first_open=*/4));
  const auto incomplete = gate_.Incomplete(contexts_);
  ASSERT_EQ(incomplete.size(), 1u);
  EXPECT_EQ(incomplete[0].step, 5);
  // Step 8 has asked for its scores: its change will be on its way.
  contexts_.Put(kStepGateAnn, 8, "m", "head", HeadContext());
  EXPECT_EQ(gate_.Incomplete(contexts_)[0].step, 8);
  // Once: whoever goes on and on would never be complete.
  gate_.Admit(kStepGateAnn, 8);
  contexts_.Put(kStepGateAnn, 9, "m", "head", HeadContext());
  EXPECT_EQ(gate_.Incomplete(contexts_)[0].step, 5);
}

// A client without contexts that keeps several steps in flight says late that a step is over: were
// it admitted up to all that waits, it would never say so in time.
TEST_F(StepGateTest, OfAClientWithoutContextsOnlyTheFirstThatWaitsStandsInTheWay) {
  contexts_.Changed(kStepGateAnn, 4);
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 4);
  for (int64_t step = 5; step <= 8; ++step) {
    gate_.NoteWaiting(GatedStep(kStepGateAnn, step, DenseScatterOp(), /*first_open=*/step - 4));
  }
  ASSERT_EQ(gate_.Incomplete(contexts_).size(), 1u);
  EXPECT_EQ(gate_.Incomplete(contexts_)[0].step, 5);
  gate_.NoteWaiting(GatedStep(kStepGateAnn, 9, DenseScatterOp(), /*first_open=*/5));
  EXPECT_TRUE(gate_.Incomplete(contexts_).empty());
}

TEST_F(StepGateTest, ForgetsWhoIsRetired) {
  Forward(kStepGateAnn, 4);
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 4);
  gate_.Drop(kStepGateAnn);
  EXPECT_TRUE(gate_.Incomplete(contexts_).empty());
}

TEST_F(StepGateTest, AnotherEpochBeginsAnew) {
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 9);
  gate_.Freeze(1);
  EXPECT_FALSE(Waits(GatedStep(kStepGateAnn, 9, HeadBackwardOp())));
  gate_.Freeze(2);
  EXPECT_TRUE(Waits(GatedStep(kStepGateAnn, 9, HeadBackwardOp())));
}

// A trainer ends while a checkpoint is prepared: its contexts go with it.
TEST_F(StepGateTest, AClientThatHasClosedIsNotWaitedFor) {
  Train(kStepGateAnn, 3);
  Train(kStepGateBob, 8);
  gate_.Freeze(1);
  gate_.Admit(kStepGateAnn, 3);
  gate_.Admit(kStepGateBob, 8);
  EXPECT_TRUE(gate_.Incomplete(contexts_).empty());
  contexts_.DropClient(kStepGateAnn);
  ASSERT_EQ(gate_.Incomplete(contexts_).size(), 1u) << "as one whose step is still to come";
  gate_.DropClosed([](const ClientId& client) { return client == kStepGateAnn; });
  EXPECT_TRUE(gate_.Incomplete(contexts_).empty());
  gate_.Admit(kStepGateBob, 9);
  EXPECT_EQ(gate_.Incomplete(contexts_).size(), 1u) << "who has not closed is waited for";
}

}  // namespace
}  // namespace dslide::shard
