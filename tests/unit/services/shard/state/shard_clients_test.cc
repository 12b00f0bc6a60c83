// Repetitions, clients that come and go, and owners that were replaced.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "services/shard/state/core_state.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

class ShardClientsTest : public ShardCoreTest {
 protected:
  // What the client is told that has confirmations up to `acknowledged`.
  uint64_t NextFor(uint64_t acknowledged) {
    HelloCommand hello = trainer_.Hello();
    hello.acknowledged_sequence = acknowledged;
    const Answer answer = Do(hello);
    EXPECT_TRUE(answer.reply->status.ok());
    const HelloReply& reply = std::get<HelloReply>(answer.reply->body);
    EXPECT_EQ(reply.generation, 7u);
    EXPECT_EQ(reply.topology_version, 1u);
    return reply.next_sequence;
  }
};

// --- Exactly once

TEST_F(ShardClientsTest, ARepetitionGetsTheSameAnswerAndChangesNothing) {
  const ScatterCommand command = trainer_.Scatter(ScatterMode::kGradient);
  const Answer first = Do(command);
  ASSERT_TRUE(first.reply->status.ok());
  EXPECT_FALSE(first.repeated);
  const uint64_t digest = core_->Digest();
  for (int i = 0; i < 3; ++i) {
    const Answer again = Do(command);
    EXPECT_EQ(again.reply, first.reply);  // the very same
    EXPECT_TRUE(again.repeated);
  }
  EXPECT_EQ(core_->Digest(), digest);
}

TEST_F(ShardClientsTest, ARepeatedForwardAfterItsBackwardLeavesNoContext) {
  const StepCommand forward = trainer_.Step(trainer_.EmbedForward(), 1);
  StepCommand repeated = forward;
  ASSERT_TRUE(Do(forward).reply->status.ok());
  trainer_.set_keep(5);
  Must(trainer_.EmbedBackward(), 1);
  EXPECT_TRUE(Do(repeated).repeated);
  EXPECT_EQ(core_->contexts().count(), 0);
}

TEST_F(ShardClientsTest, AcknowledgedSequencesAreStale) {
  const ScatterCommand first = trainer_.Scatter(ScatterMode::kAdd);
  ASSERT_TRUE(Do(first).reply->status.ok());
  ASSERT_TRUE(Do(trainer_.Scatter(ScatterMode::kAdd)).reply->status.ok());
  const uint64_t digest = core_->Digest();
  const Answer answer = Do(first);
  EXPECT_EQ(Reason(answer), reason::kStaleSequence);
  EXPECT_TRUE(absl::IsInvalidArgument(answer.reply->status));
  EXPECT_EQ(core_->Digest(), digest);
}

TEST_F(ShardClientsTest, AGapIsRefusedUntilItIsFilled) {
  trainer_.set_keep(9);
  const ScatterCommand first = trainer_.Scatter(ScatterMode::kAdd);
  const ScatterCommand second = trainer_.Scatter(ScatterMode::kAdd);
  const Answer early = Do(second);
  EXPECT_EQ(Reason(early), reason::kSequenceGap);
  EXPECT_TRUE(absl::IsFailedPrecondition(early.reply->status));
  EXPECT_TRUE(Do(first).reply->status.ok());
  EXPECT_TRUE(Do(second).reply->status.ok());
}

TEST_F(ShardClientsTest, SequencesThatTheClientGaveUpAreSkippedForGood) {
  trainer_.set_keep(9);
  const ScatterCommand evicted = trainer_.Scatter(ScatterMode::kAdd);
  trainer_.set_keep(0);
  EXPECT_TRUE(Do(trainer_.Scatter(ScatterMode::kAdd)).reply->status.ok());
  EXPECT_EQ(Reason(Do(evicted)), reason::kStaleSequence);
}

TEST_F(ShardClientsTest, TheWindowIsBounded) {
  trainer_.set_keep(UINT64_MAX / 2);
  ShardCoreOptions options = SampleOptions();
  options.clients.window = 4;
  core_ = SampleCore(trainer_, options);
  const auto next = [&] {
    ScatterCommand command = trainer_.Scatter(ScatterMode::kAdd);
    command.envelope.first_incomplete = 1;
    return command;
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Do(next()).reply->status.ok());
  ScatterCommand fifth = next();
  const Answer full = Do(fifth);
  EXPECT_EQ(Reason(full), reason::kWindowFull);
  EXPECT_GT(RetryAfterMs(full.reply->status), 0);
  fifth.envelope.first_incomplete = 3;
  EXPECT_TRUE(Do(fifth).reply->status.ok());
}

TEST_F(ShardClientsTest, KeptRepliesAreBounded) {
  ShardCoreOptions options = SampleOptions();
  options.clients.client_reply_bytes = 1000;
  core_ = SampleCore(trainer_, options);
  trainer_.set_keep(0);
  StepCommand command = trainer_.Step(trainer_.EmbedForward(40), 1);
  ASSERT_TRUE(Do(command).reply->status.ok());
  command.envelope.sequence = 2;  // nothing is acknowledged
  EXPECT_EQ(Reason(Do(command)), reason::kRepliesFull);
  command.envelope.first_incomplete = 2;
  EXPECT_TRUE(Do(command).reply->status.ok());
}

TEST_F(ShardClientsTest, AnInvalidRequestUsesUpItsSequence) {
  ScatterCommand bad = trainer_.Scatter(ScatterMode::kAdd);
  bad.rows.values[0] = std::numeric_limits<float>::quiet_NaN();
  const Answer first = Do(bad);
  EXPECT_EQ(Reason(first), reason::kOverMagnitude);
  ScatterCommand repaired = trainer_.Scatter(ScatterMode::kAdd);
  repaired.envelope = bad.envelope;
  EXPECT_EQ(Do(repaired).reply, first.reply);  // the first answer, whatever it says now
  EXPECT_TRUE(Do(trainer_.Scatter(ScatterMode::kAdd)).reply->status.ok());
}

TEST_F(ShardClientsTest, ARequestThatCouldNotBeDecodedUsesUpItsSequence) {
  const RefusedCommand refused = {.envelope = trainer_.Next(),
                                  .refusal = wire::Refusal(reason::kBadSize, "x", "is wrong")};
  const Answer first = Do(refused);
  EXPECT_EQ(Reason(first), reason::kBadSize);
  EXPECT_EQ(Do(refused).reply, first.reply);
  EXPECT_TRUE(Do(trainer_.Scatter(ScatterMode::kAdd)).reply->status.ok());
}

TEST_F(ShardClientsTest, ErrorsThatMayPassLeaveTheSequenceOpen) {
  ShardCoreOptions options = SampleOptions();
  options.context_bytes = 4000;
  core_ = SampleCore(trainer_, options);
  trainer_.set_keep(9);
  // Fills the budget with open steps.
  Answer answer;
  int64_t step = 0;
  StepCommand last;
  do {
    last = trainer_.Step(trainer_.EmbedForward(4), ++step);
    answer = Do(last);
  } while (answer.reply->status.ok());
  EXPECT_EQ(Reason(answer), reason::kContextsFull);
  EXPECT_GT(RetryAfterMs(answer.reply->status), 0);
  EXPECT_GT(step, 2);
  // Room is made by an acknowledgement in the same request, sent again with its sequence.
  last.first_open_step = step;
  EXPECT_TRUE(Do(last).reply->status.ok());
  EXPECT_EQ(core_->contexts().count(), 1);
}

// --- Clients

TEST_F(ShardClientsTest, HelloTellsTheNextSequence) {
  EXPECT_EQ(NextFor(0), 1u);
  Do(trainer_.Scatter(ScatterMode::kAdd));
  Do(trainer_.Scatter(ScatterMode::kAdd));
  EXPECT_EQ(NextFor(1), 3u);
  EXPECT_EQ(NextFor(2), 3u);
}

TEST_F(ShardClientsTest, ANumberThatWasGivenUpIsNoLoss) {
  Do(trainer_.Scatter(ScatterMode::kAdd));
  ScatterCommand refused = trainer_.Scatter(ScatterMode::kAdd);
  refused.envelope.topology_version = 9;
  EXPECT_EQ(Reason(Do(refused)), reason::kStaleTopology);
  EXPECT_EQ(NextFor(1), 2u) << "the second one was never used";
  EXPECT_TRUE(Do(trainer_.Scatter(ScatterMode::kAdd)).reply->status.ok());
  EXPECT_EQ(NextFor(3), 4u);
}

TEST_F(ShardClientsTest, AKnownClientIsToldOfALossAsOftenAsItAsks) {
  Do(trainer_.Scatter(ScatterMode::kAdd));
  Do(trainer_.Scatter(ScatterMode::kAdd));
  EXPECT_EQ(NextFor(5), 3u);
  EXPECT_EQ(NextFor(UINT64_MAX), 3u);
  EXPECT_EQ(NextFor(2), 3u);
  EXPECT_TRUE(core_->clients().clients().begin()->second.lost);
}

TEST_F(ShardClientsTest, AClientThatLostItsUpdatesIsToldSo) {
  HelloCommand hello{.job = "job", .client = SampleClient(99), .acknowledged_sequence = 50};
  const Answer answer = Do(hello);
  EXPECT_EQ(std::get<HelloReply>(answer.reply->body).next_sequence, 1u);
}

TEST_F(ShardClientsTest, StrangersMustSayHello) {
  SampleTrainer stranger(2);
  EXPECT_EQ(Reason(Do(stranger.Scatter(ScatterMode::kAdd))), reason::kUnknownClient);
  Do(stranger.Hello());
  stranger.TakeBack();
  EXPECT_TRUE(Do(stranger.Scatter(ScatterMode::kAdd)).reply->status.ok());
}

TEST_F(ShardClientsTest, AClientThatLeftStaysAway) {
  Must(trainer_.EmbedForward(), 1);
  EXPECT_EQ(core_->contexts().count(), 1);
  EXPECT_TRUE(Do(trainer_.CloseClient()).reply->status.ok());
  EXPECT_TRUE(Do(trainer_.CloseClient()).reply->status.ok());  // again is fine
  EXPECT_EQ(core_->contexts().count(), 0);
  EXPECT_EQ(core_->clients().open_clients(), 0);
  EXPECT_EQ(core_->clients().reply_bytes(), 0);
  EXPECT_EQ(Reason(Do(trainer_.Hello())), reason::kClosedClient);
  EXPECT_EQ(Reason(Do(trainer_.Scatter(ScatterMode::kAdd))), reason::kClosedClient);
}

TEST_F(ShardClientsTest, AClientBelongsToOneJob) {
  ScatterCommand command = trainer_.Scatter(ScatterMode::kAdd);
  command.envelope.job = "other";
  EXPECT_EQ(Reason(Do(command)), reason::kBadName);
}

TEST_F(ShardClientsTest, SilentClientsMakeRoomForNewOnes) {
  ShardCoreOptions options = SampleOptions();
  options.clients.max_clients = 3;
  options.clients.idle_commands = 10;
  core_ = SampleCore(trainer_, options);
  SampleTrainer dead(2), other(3), fresh(4);
  Do(dead.Hello());
  Do(dead.Step(dead.EmbedForward(), 1));
  Do(other.Hello());
  EXPECT_EQ(Reason(Do(fresh.Hello())), reason::kTooManyClients);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(Do(trainer_.Scatter(ScatterMode::kAdd)).reply->status.ok());
    EXPECT_TRUE(Do(other.Scatter(ScatterMode::kAdd)).reply->status.ok());
  }
  EXPECT_EQ(core_->contexts().count(), 1);
  EXPECT_TRUE(Do(fresh.Hello()).reply->status.ok());
  EXPECT_EQ(core_->contexts().count(), 0) << "the dead client's context must go with it";
  EXPECT_EQ(Reason(Do(dead.Scatter(ScatterMode::kAdd))), reason::kClosedClient);
}

TEST_F(ShardClientsTest, SilentClientsMakeRoomForContexts) {
  ShardCoreOptions options = SampleOptions();
  options.context_bytes = 1500;
  options.clients.idle_commands = 30;
  core_ = SampleCore(trainer_, options);
  SampleTrainer dead(2);
  Do(dead.Hello());
  int64_t step = 0;
  while (Do(dead.Step(dead.EmbedForward(), ++step)).reply->status.ok()) {
  }
  Answer answer;
  int tries = 0;
  do {
    answer = Do(trainer_.Step(trainer_.EmbedForward(), 1));
    trainer_.TakeBack();
    ++tries;
  } while (Reason(answer) == reason::kContextsFull && tries < 100);
  EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
  EXPECT_GT(tries, 1);
}

// --- Quarantine

class QuarantineTest : public ShardClientsTest {
 protected:
  void Make(int64_t most) {
    ShardCoreOptions options = SampleOptions();
    options.clients.bad_requests = most;
    core_ = SampleCore(trainer_, options);
  }
  Answer Good() { return Do(trainer_.Scatter(ScatterMode::kAdd)); }
  Answer Bad() {
    ScatterCommand bad = trainer_.Scatter(ScatterMode::kAdd);
    bad.rows.values[0] = std::numeric_limits<float>::quiet_NaN();
    return Do(bad);
  }
};

TEST_F(QuarantineTest, TooManyBadRequestsEndAClient) {
  Make(3);
  Must(trainer_.EmbedForward(), 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Reason(Bad()), reason::kOverMagnitude);
  EXPECT_TRUE(Good().reply->status.ok()) << "three are allowed";
  EXPECT_EQ(core_->contexts().count(), 1);
  EXPECT_EQ(Reason(Bad()), reason::kOverMagnitude) << "it is told what was wrong";
  EXPECT_EQ(core_->contexts().count(), 0) << "nobody will finish its step";
  const Answer refused = Good();
  EXPECT_EQ(Reason(refused), reason::kQuarantined);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.reply->status));
  EXPECT_THAT(std::string(refused.reply->status.message()), HasSubstr("new client id"));
  EXPECT_EQ(Reason(Do(trainer_.Hello())), reason::kQuarantined);
  EXPECT_EQ(core_->quarantined(), 1);
  SampleTrainer successor(2);
  EXPECT_TRUE(Do(successor.Hello()).reply->status.ok());
  EXPECT_TRUE(Do(successor.Scatter(ScatterMode::kAdd)).reply->status.ok());
}

TEST_F(QuarantineTest, RepetitionsAreAnsweredAllTheSame) {
  Make(1);
  trainer_.set_keep(9);
  const ScatterCommand good = trainer_.Scatter(ScatterMode::kAdd);
  const Answer first = Do(good);
  Bad();
  Bad();
  EXPECT_EQ(Do(good).reply, first.reply) << "what became of it must stay known";
  EXPECT_EQ(Reason(Good()), reason::kQuarantined);
}

TEST_F(QuarantineTest, BadRequestsAreCountedByTheThousand) {
  Make(2);
  for (int block = 0; block < 3; ++block) {
    for (int i = 0; i < kQuarantineBlock; ++i) {
      EXPECT_EQ((i < 2 ? Bad() : Good()).reply->status.ok(), i >= 2) << block << " " << i;
    }
  }
  EXPECT_EQ(core_->quarantined(), 0);
}

TEST_F(QuarantineTest, WhatIsWrongWithTheTimeDoesNotCount) {
  Make(1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Reason(Do(trainer_.Step(trainer_.EmbedBackward(), 1))), reason::kNoContext);
    ScatterCommand stale = trainer_.Scatter(ScatterMode::kAdd);
    trainer_.TakeBack();
    stale.envelope.topology_version = 9;
    EXPECT_EQ(Reason(Do(stale)), reason::kStaleTopology);
  }
  EXPECT_TRUE(Good().reply->status.ok());
}

TEST_F(QuarantineTest, ZeroIsNever) {
  Make(0);
  for (int i = 0; i < kQuarantineBlock; ++i) Bad();
  EXPECT_TRUE(Good().reply->status.ok());
}

// Refusals are commands like any other: a replay counts them, and an image has the counts.
TEST_F(QuarantineTest, ItIsPartOfTheState) {
  Make(3);
  for (int i = 0; i < 3; ++i) Bad();
  const std::string before = EncodeCoreState(*core_);
  ShardCore restored(SampleOptions());
  ASSERT_TRUE(RestoreCoreState(before, restored).ok());
  EXPECT_EQ(EncodeCoreState(restored), before);
  EXPECT_EQ(restored.limits().clients.bad_requests, 3);
  ASSERT_TRUE(restored.Apply(SampleCreate()).reply->status.ok());
  ScatterCommand last = trainer_.Scatter(ScatterMode::kAdd);
  last.rows.values[0] = std::numeric_limits<float>::quiet_NaN();
  restored.Apply(last);
  EXPECT_EQ(restored.quarantined(), 1);
  ShardCore again(SampleOptions());
  ASSERT_TRUE(RestoreCoreState(EncodeCoreState(restored), again).ok());
  EXPECT_TRUE(again.clients().clients().begin()->second.quarantined);
}

// --- Fencing

TEST_F(ShardClientsTest, OtherGenerationsAreFenced) {
  for (const uint64_t generation : {6u, 8u}) {
    ScatterCommand command = trainer_.Scatter(ScatterMode::kAdd);
    trainer_.TakeBack();
    command.envelope.generation = generation;
    const Answer answer = Do(command);
    EXPECT_EQ(Reason(answer), reason::kStaleGeneration);
    EXPECT_TRUE(absl::IsFailedPrecondition(answer.reply->status));
  }
  ScatterCommand command = trainer_.Scatter(ScatterMode::kAdd);
  command.envelope.generation = 7;
  const Answer answer = Do(command);
  EXPECT_TRUE(answer.reply->status.ok());
  EXPECT_EQ(answer.generation, 7u);
  Do(SetOwnershipCommand{.shard = ShardId(0), .generation = 8});
  EXPECT_EQ(Reason(Do(command)), reason::kStaleGeneration);
  command.envelope.generation = 8;
  EXPECT_TRUE(Do(command).repeated) << "the same process still knows what it applied";
}

TEST_F(ShardClientsTest, OtherTopologiesAreRefused) {
  ScatterCommand command = trainer_.Scatter(ScatterMode::kAdd);
  command.envelope.topology_version = 2;
  EXPECT_EQ(Reason(Do(command)), reason::kStaleTopology);
  GatherCommand gather = trainer_.Gather();
  gather.topology_version = 2;
  EXPECT_EQ(Reason(Do(gather)), reason::kStaleTopology);
  gather.topology_version = 1;
  EXPECT_TRUE(Do(gather).reply->status.ok());
}

}  // namespace
}  // namespace dslide::shard
