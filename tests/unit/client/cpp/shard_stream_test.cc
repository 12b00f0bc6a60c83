#include "client/cpp/shard_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/cpp/wire_counters.h"
#include "core/base/reason.h"
#include "tests/unit/client/cpp/fake_shard.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ShardStreamTest : public ::testing::Test {
 protected:
  ShardStreamTest() : client_(fake_.Channel(), ShardId(3), "here:1", Options(), &counters_) {}

  static ClientOptions Options() {
    ClientOptions options;
    options.timeout = kPatience;
    options.retry.first_delay = absl::Milliseconds(1);
    options.retry.max_delay = absl::Milliseconds(5);
    return options;
  }

  std::unique_ptr<ShardStream> Open(absl::Duration timeout = kPatience) {
    ShardStreamOptions options;
    options.job = "j";
    options.client = NewClientId();
    options.model = "m";
    options.timeout = timeout;
    options.retry = Options().retry;
    options.request_id = "of-the-stream";
    absl::StatusOr<std::unique_ptr<ShardStream>> stream =
        ShardStream::Open(client_, options, counters_);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return std::move(*stream);
  }

  static StepOp Op() { return EmbedBackwardOp{"in", 1, {1.0f}}; }

  // The sequence number that the fake answered.
  static int64_t Answer(const std::shared_ptr<PendingStep>& pending) {
    const absl::StatusOr<ReplyBody> reply = pending->Take();
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? std::get<EmbedBackwardReply>(*reply).distinct_rows : -1;
  }

  FakeShard fake_;
  WireCounters counters_;
  ShardClient client_;
};

TEST_F(ShardStreamTest, AnswersComeInTheOrderOfSending) {
  const auto stream = Open();
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (int i = 0; i < 200; ++i) pending.push_back(stream->Send(1, 1, Op()));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Answer(pending[static_cast<size_t>(i)]), i + 1);
  EXPECT_EQ(pending[7]->outcome(), Outcome::kApplied);
  const WireTraffic steps = counters_.Of(WireMethod::kStep);
  EXPECT_EQ(steps.messages_sent, 200);
  EXPECT_EQ(steps.messages_received, 200);
  EXPECT_GT(steps.bytes_sent, 200 * 30);
}

TEST_F(ShardStreamTest, RepeatedAnswersAreIgnored) {
  const auto stream = Open();
  fake_.AnswerTwice();
  fake_.RefuseSequence(4);
  fake_.Refuse(6, 2, absl::StatusCode::kResourceExhausted);
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (int i = 0; i < 20; ++i) pending.push_back(stream->Send(1, 1, Op()));
  for (int i = 0; i < 20; ++i) {
    if (i == 3) continue;
    EXPECT_EQ(Answer(pending[static_cast<size_t>(i)]), i + 1);
  }
  EXPECT_EQ(ReasonOf(pending[3]->Take().status()), "FOREIGN_ROW");
}

TEST_F(ShardStreamTest, PacksRequestsForShardsThatReadThem) {
  const StepOp op =
      EmbedForwardOp{.table = "in", .offsets = {0, 1}, .rows = {RowId(5)}, .values = {1.0f}};
  const auto stream = Open();
  EXPECT_EQ(Answer(stream->Send(1, 1, op)), 1);
  EXPECT_EQ(fake_.packed(), 0) << "a shard that does not say so";
  // An upgraded shard says so when it is greeted again.
  fake_.Announce({"something-else", "packed-steps"});
  fake_.BreakAt(2, false);
  EXPECT_EQ(Answer(stream->Send(2, 2, op)), 2);
  EXPECT_EQ(fake_.packed(), 0) << "what was unanswered is sent unchanged";
  EXPECT_EQ(Answer(stream->Send(3, 3, op)), 3);
  EXPECT_EQ(fake_.packed(), 1);
}

TEST_F(ShardStreamTest, LeavesZerosOutForShardsThatReadSuchMatrices) {
  const StepOp op = EmbedBackwardOp{.table = "in", .dim = 8, .gradient = std::vector<float>(8)};
  const auto stream = Open();
  EXPECT_EQ(Answer(stream->Send(1, 1, op)), 1);
  EXPECT_EQ(fake_.packed(), 0) << "a shard that does not say so";
  fake_.Announce({"sparse-matrices"});
  fake_.BreakAt(2, false);
  EXPECT_EQ(Answer(stream->Send(2, 2, op)), 2);
  EXPECT_EQ(fake_.packed(), 0) << "what was unanswered is sent unchanged";
  EXPECT_EQ(Answer(stream->Send(3, 3, op)), 3);
  EXPECT_EQ(fake_.packed(), 1);
}

TEST_F(ShardStreamTest, SendsNoExplicitRowsToShardsThatWouldLeaveThemOut) {
  HeadForwardOp op;
  op.table = "out";
  op.dim = 1;
  op.hidden = {1.0f};
  op.label_offsets = {0, 0};
  op.label_targets = {0.0f};
  op.explicit_rows = {.offsets = {0, 1}, .rows = {RowId(5)}};
  const auto stream = Open();
  const absl::Status refusal = stream->Send(1, 1, op)->Take().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal)) << refusal;
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("takes no explicit rows: upgrade it"));
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1) << "no number was used up";
  // An upgraded shard says so when it is greeted again.
  fake_.Announce({"explicit-rows"});
  fake_.BreakAt(2, false);
  EXPECT_EQ(Answer(stream->Send(2, 2, Op())), 2);
  EXPECT_EQ(Answer(stream->Send(3, 3, op)), 3);
}

TEST_F(ShardStreamTest, AsksForNoAveragesWhereTheyWouldNotBeRead) {
  const EmbedForwardOp sums = {
      .table = "in", .offsets = {0, 1}, .rows = {RowId(5)}, .values = {1.0f}, .averaged = true};
  const DenseGatherOp rows = {.table = "mid", .averaged = true};
  HeadForwardOp weighing;
  weighing.table = "out";
  weighing.dim = 1;
  weighing.hidden = {1.0f};
  weighing.label_offsets = {0, 1};
  weighing.labels = {RowId(5)};
  weighing.label_targets = {1.0f};
  weighing.label_weights = {2.0f};
  const auto stream = Open();
  const auto refusal = [&](const StepOp& op) {
    return std::string(stream->Send(1, 1, op)->Take().status().message());
  };
  EXPECT_THAT(refusal(sums), HasSubstr("takes no averages of rows: upgrade it"));
  EXPECT_THAT(refusal(rows), HasSubstr("takes no averages of rows: upgrade it"));
  EXPECT_THAT(refusal(weighing), HasSubstr("takes no weights of labels: upgrade it"));
  fake_.Announce({"averaged-rows", "label-weights"});
  fake_.BreakAt(1, false);
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  EXPECT_EQ(Answer(stream->Send(2, 2, sums)), 2);
  EXPECT_EQ(Answer(stream->Send(3, 3, weighing)), 3);
}

TEST_F(ShardStreamTest, AnErrorConcernsItsOwnRequestOnly) {
  const auto stream = Open();
  fake_.RefuseSequence(2);
  const auto first = stream->Send(1, 1, Op());
  const auto second = stream->Send(1, 1, Op());
  const auto third = stream->Send(1, 1, Op());
  EXPECT_EQ(Answer(first), 1);
  const absl::Status refused = second->Take().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(refused), "FOREIGN_ROW");
  EXPECT_EQ(second->outcome(), Outcome::kNotApplied);
  EXPECT_EQ(Answer(third), 3);
}

TEST_F(ShardStreamTest, ABusyShardGetsTheRequestAgainAndKeepsTheOrder) {
  const auto stream = Open();
  fake_.Refuse(3, 2, absl::StatusCode::kResourceExhausted);
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (int i = 0; i < 10; ++i) pending.push_back(stream->Send(1, 1, Op()));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Answer(pending[static_cast<size_t>(i)]), i + 1);
  std::vector<int> applied = fake_.Applied();
  applied.erase(applied.begin());
  EXPECT_THAT(applied, AllOf(SizeIs(10), Each(1)));
  EXPECT_EQ(stream->reconnects(), 0);
}

TEST_F(ShardStreamTest, ABusyShardIsAnErrorAtTheDeadline) {
  const auto stream = Open(absl::Milliseconds(500));
  fake_.Refuse(1, 1000000, absl::StatusCode::kResourceExhausted);
  const auto pending = stream->Send(1, 1, Op());
  EXPECT_FALSE(pending->Take().ok());
}

TEST_F(ShardStreamTest, ARefusalThatLeavesItsNumberUnusedConcernsItsOwnRequestOnly) {
  const auto stream = Open();
  fake_.Refuse(2, 1000000, absl::StatusCode::kNotFound);
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (int i = 0; i < 6; ++i) pending.push_back(stream->Send(1, 1, Op()));
  for (int i = 0; i < 6; ++i) {
    if (i == 1) {
      const absl::Status refusal = pending[1]->Take().status();
      EXPECT_EQ(refusal.code(), absl::StatusCode::kNotFound);
      EXPECT_THAT(std::string(refusal.message()), HasSubstr("(request of-the-stream)"));
    } else {
      EXPECT_EQ(Answer(pending[static_cast<size_t>(i)]), i + 1);
    }
  }
}

// Both before and after the shard has applied the request on which the stream breaks.
class BrokenStreamTest : public ShardStreamTest, public ::testing::WithParamInterface<bool> {};

TEST_P(BrokenStreamTest, ResendsWhatIsUnansweredAndAppliesNothingTwice) {
  const auto stream = Open();
  fake_.BreakAt(4, GetParam());
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (int i = 0; i < 10; ++i) pending.push_back(stream->Send(1, 1, Op()));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Answer(pending[static_cast<size_t>(i)]), i + 1);
  std::vector<int> applied = fake_.Applied();
  ASSERT_THAT(applied, SizeIs(11));
  applied.erase(applied.begin());
  EXPECT_THAT(applied, Each(1));
  EXPECT_EQ(stream->reconnects(), 1);
  EXPECT_EQ(fake_.streams(), 2);
}

INSTANTIATE_TEST_SUITE_P(AppliedOrNot, BrokenStreamTest, ::testing::Bool());

TEST_F(ShardStreamTest, TriesAgainWhileTheShardIsNotBackYet) {
  const auto stream = Open();
  fake_.BreakAt(1, false);
  fake_.RefuseHello(3);
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
}

TEST_F(ShardStreamTest, AShardThatDoesNotComeBackIsAnErrorWithTheReasonAndTheRemedy) {
  const auto stream = Open(absl::Milliseconds(500));
  fake_.BreakAt(1, false);
  fake_.RefuseHello(1000000);
  // The first ends at its deadline, the second with the mending, which is given up at that time.
  for (int i = 0; i < 2; ++i) {
    const auto pending = stream->Send(1, 1, Op());
    const absl::Status status = pending->Take().status();
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("no answer from shard 3 at here:1 within 500ms"),
                      HasSubstr("start it again with its data directory")));
  }
}

TEST_F(ShardStreamTest, AShardThatLostConfirmedUpdatesIsDataLoss) {
  const auto stream = Open();
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 2);
  fake_.ForgetEverything();
  fake_.BreakAt(3, false);
  const auto pending = stream->Send(2, 2, Op());
  const absl::Status status = pending->Take().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 3"), HasSubstr("lost updates")));
  EXPECT_EQ(pending->outcome(), Outcome::kUnknown);
  // And so does everything after it, at once.
  EXPECT_EQ(stream->Send(3, 3, Op())->Take().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ShardStreamTest, ANumberThatWasGivenUpIsNoLostUpdate) {
  const auto stream = Open();
  fake_.Refuse(2, 1000000, absl::StatusCode::kNotFound);
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  EXPECT_EQ(stream->Send(1, 1, Op())->Take().status().code(), absl::StatusCode::kNotFound);
  fake_.BreakAt(3, false);
  EXPECT_EQ(Answer(stream->Send(2, 2, Op())), 3);
  EXPECT_EQ(fake_.acknowledged(), 1u);
}

TEST_F(ShardStreamTest, ANewGenerationThatKeptItsStateGoesOn) {
  const auto stream = Open();
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  fake_.BreakAt(2, false);
  fake_.ChangeGeneration();
  EXPECT_EQ(Answer(stream->Send(2, 2, Op())), 2);
}

// A coordinator that has forgotten the shard gives it a new one: nothing breaks.
TEST_F(ShardStreamTest, ANewGenerationOfALivingShardIsLearnt) {
  const auto stream = Open();
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  fake_.ChangeGeneration();
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (int i = 0; i < 6; ++i) pending.push_back(stream->Send(2, 2, Op()));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(Answer(pending[static_cast<size_t>(i)]), i + 2);
  EXPECT_EQ(stream->reconnects(), 1);
}

TEST_F(ShardStreamTest, AShardThatDoesNotKnowTheClientIsGreeted) {
  const auto stream = Open();
  fake_.Refuse(1, 1, absl::StatusCode::kFailedPrecondition, "UNKNOWN_CLIENT");
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  EXPECT_EQ(stream->reconnects(), 1);
}

// Its answers are lost there: the trainer begins anew as another client.
TEST_F(ShardStreamTest, AShardThatHasForgottenTheClientIsNot) {
  const auto stream = Open();
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  fake_.Refuse(2, 1, absl::StatusCode::kFailedPrecondition, "UNKNOWN_CLIENT");
  EXPECT_EQ(ReasonOf(stream->Send(2, 2, Op())->Take().status()), "UNKNOWN_CLIENT");
  EXPECT_EQ(stream->reconnects(), 0);
}

TEST_F(ShardStreamTest, ARequestLargerThanAMessageIsRefusedAtOnce) {
  const auto stream = Open();
  const EmbedBackwardOp large = {"in", 1, std::vector<float>(2 << 20, 1.0f)};
  const auto refused = stream->Send(1, 1, large);
  const absl::Status status = refused->Take().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("smaller --batch-size"));
  EXPECT_EQ(refused->outcome(), Outcome::kNotApplied);
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
}

TEST_F(ShardStreamTest, ASilentShardIsDeadlineExceededAndUnknown) {
  const auto stream = Open(absl::Milliseconds(500));
  fake_.NeverAnswer();
  const auto pending = stream->Send(1, 1, Op());
  const absl::Status status = pending->Take().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no answer from shard 3 at here:1 within 500ms"),
                    HasSubstr("start it again with its data directory")));
  EXPECT_EQ(pending->outcome(), Outcome::kUnknown);
}

TEST_F(ShardStreamTest, CloseRetiresTheClientAndCancelsTheRest) {
  const auto stream = Open();
  EXPECT_EQ(Answer(stream->Send(1, 1, Op())), 1);
  EXPECT_TRUE(stream->Close().ok());
  EXPECT_EQ(fake_.closes, 1);
  EXPECT_EQ(stream->Send(2, 2, Op())->Take().status().code(), absl::StatusCode::kCancelled);
}

// It would take all of the 5 s that a good-bye may have.
TEST_F(ShardStreamTest, TheGoodByeToAShardThatIsGoneIsNotRepeated) {
  const auto stream = Open();
  fake_.RefuseCloses();
  EXPECT_EQ(stream->Close().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(fake_.closes, 1);
}

TEST_F(ShardStreamTest, GoodByesAreSaidAtTheSameTime) {
  constexpr int kStreams = 8;
  // One after the other, they would wait in vain.
  fake_.HoldClosesUntil(kStreams);
  std::vector<std::unique_ptr<ShardStream>> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(Open());
  CloseStreams(streams);
  EXPECT_EQ(fake_.closes, kStreams);
}

TEST(ShardStreamOpenTest, AnUnreachableShardIsAnErrorWithinTheDeadline) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      NetworkChannels({})("unix:/nonexistent/shard.sock");
  ASSERT_TRUE(channel.ok());
  WireCounters counters;
  ClientOptions options;
  options.timeout = absl::Milliseconds(300);
  options.retry.first_delay = absl::Milliseconds(10);
  ShardClient client(*channel, ShardId(0), "unix:/nonexistent/shard.sock", options, &counters);
  ShardStreamOptions stream_options;
  stream_options.timeout = absl::Milliseconds(300);
  const absl::Time start = absl::Now();
  const absl::Status status = ShardStream::Open(client, stream_options, counters).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 0 at unix:/nonexistent/shard.sock"),
                    HasSubstr("start it again with its data directory")));
  EXPECT_LT(absl::Now() - start, kPatience);
}

}  // namespace
}  // namespace dslide
