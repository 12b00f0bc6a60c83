#include "core/wire/log/logged_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "core/protocol/received_rows.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/reply_bytes.h"
#include "core/wire/steps/step_codec.h"
#include "core/wire/steps/step_request.h"

namespace dslide::wire {
namespace {

using ::testing::HasSubstr;

Envelope LoggedEnvelope() {
  Envelope envelope;
  envelope.job = "job";
  envelope.client[3] = 7;
  envelope.sequence = 9;
  envelope.first_incomplete = 4;
  envelope.generation = 12;
  envelope.model = "m";
  return envelope;
}

std::string Joined(const LoggedCommand& logged) {
  std::string bytes;
  for (const absl::string_view piece : logged.payload) bytes.append(piece.data(), piece.size());
  return bytes;
}

StepCommand StepToLog() {
  return {.envelope = LoggedEnvelope(),
          .step = 3,
          .first_open_step = 2,
          .op = HeadBackwardOp{.table = "head", .log_partitions = {1, 2, 3}, .scale = 0.5f}};
}

TEST(LoggedCommandTest, AStepReadsBackFromItsBytesWhereverTheyAreCut) {
  v1::StepRequest request;
  EncodeStepRequest(StepToLog(), {}, &request);
  const std::string bytes = request.SerializeAsString();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const absl::string_view whole = bytes;
    v1::StepRequest parsed;
    ASSERT_TRUE(ParseStepRequest({whole.substr(0, cut), whole.substr(cut)}, &parsed).ok());
    EXPECT_EQ(parsed.SerializeAsString(), bytes);
  }
  const auto command = DecodeLogged(LoggedKind::kStep, bytes);
  ASSERT_TRUE(command.ok()) << command.status();
  const auto& step = std::get<StepCommand>(*command);
  EXPECT_EQ(step.envelope.sequence, 9u);
  EXPECT_EQ(std::get<HeadBackwardOp>(step.op).log_partitions, (std::vector<float>{1, 2, 3}));
}

TEST(LoggedCommandTest, AMessageThatIsNoneIsRefused) {
  v1::StepRequest parsed;
  const absl::string_view garbage = "\xff\xff\xff\xff";
  const absl::Status status = ParseStepRequest(absl::MakeConstSpan(&garbage, 1), &parsed);
  EXPECT_EQ(ReasonOf(status), reason::kBadMessage);
  EXPECT_EQ(parsed.ByteSizeLong(), 0u);
}

TEST(LoggedCommandTest, AWrongStepBecomesARefusalThatIsRemembered) {
  StepCommand step = StepToLog();
  std::get<HeadBackwardOp>(step.op).scale = 7;
  v1::StepRequest request;
  EncodeStepRequest(step, {}, &request);
  const auto command = DecodeStepMutation(request);
  ASSERT_TRUE(command.ok()) << command.status();
  const auto& refused = std::get<RefusedCommand>(*command);
  // Logged, it needs none of what was refused.
  const auto again = DecodeLogged(LoggedKind::kRefused, Joined(LogRefused(refused)));
  ASSERT_TRUE(again.ok()) << again.status();
  const auto& logged = std::get<RefusedCommand>(*again);
  EXPECT_EQ(logged.refusal, refused.refusal);
  EXPECT_EQ(ReasonOf(logged.refusal), reason::kOutOfRange);
  EXPECT_EQ(logged.envelope.client, refused.envelope.client);
  EXPECT_EQ(logged.envelope.sequence, 9u);
  EXPECT_EQ(logged.envelope.first_incomplete, 4u);
  // Without an envelope there is nobody to remember it for.
  request.clear_envelope();
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStepMutation(request).status()));
}

TEST(LoggedCommandTest, TheMessagesOfAScatterReadBackInOrder) {
  ScatterCommand scatter{.envelope = LoggedEnvelope(), .table = "head", .rows = {}};
  scatter.rows.dim = 4;
  for (uint32_t row = 0; row < 60; ++row) {
    scatter.rows.rows.emplace_back(row);
    for (int i = 0; i < 4; ++i) scatter.rows.values.push_back(static_cast<float>(row) + 0.25f);
  }
  LoggedCommand logged;
  int messages = 0;
  for (const auto& message : EncodeScatter(scatter, ActivationType::kF32, 200)) {
    const auto bytes = std::make_shared<const std::string>(message.SerializeAsString());
    const absl::string_view whole = *bytes;
    AddScatterMessage({whole.substr(0, 5), whole.substr(5)}, bytes, &logged);
    ++messages;
  }
  EXPECT_GT(messages, 3);
  const std::string payload = Joined(logged);
  const auto command = DecodeLogged(LoggedKind::kScatter, payload);
  ASSERT_TRUE(command.ok()) << command.status();
  const RowBlock block = std::get<ScatterCommand>(*command).received->ToBlock();
  EXPECT_EQ(block.rows, scatter.rows.rows);
  EXPECT_EQ(block.values, scatter.rows.values);
  for (size_t size = 0; size < payload.size(); size += 7) {
    EXPECT_TRUE(absl::IsDataLoss(
        DecodeLogged(LoggedKind::kScatter, absl::string_view(payload).substr(0, size)).status()));
  }
}

TEST(LoggedCommandTest, OwnershipAndUnknownKinds) {
  const SetOwnershipCommand own{.shard = ShardId(3), .generation = 1u << 20, .topology_version = 8};
  const auto command = DecodeLogged(LoggedKind::kOwnership, Joined(LogOwnership(own)));
  ASSERT_TRUE(command.ok()) << command.status();
  const auto& read = std::get<SetOwnershipCommand>(*command);
  EXPECT_EQ(read.shard, own.shard);
  EXPECT_EQ(read.generation, own.generation);
  EXPECT_EQ(read.topology_version, own.topology_version);
  const auto unknown = DecodeLogged(static_cast<LoggedKind>(77), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(unknown.status()));
  EXPECT_THAT(unknown.status().message(), HasSubstr("kind 77"));
  EXPECT_TRUE(absl::IsDataLoss(DecodeLogged(LoggedKind::kHello, "\xff").status()));
}

TEST(ReplyBytesTest, AnswersReadBackToTheBit) {
  Reply reply;
  HeadForwardReply head;
  head.output.max_logits = {0.1f, -INFINITY};
  head.output.exp_sums = {1.0f / 3, 0};
  head.output.label_logits = {2.5f};
  head.output.active_pairs = 12;
  head.output.distinct_rows = 7;
  head.output.recall.push_back({.sample = 1, .rows = {RowId(5)}, .logits = {0.7f}, .found = {1}});
  reply.body = head;
  const auto again = DecodeReply(EncodeReply(reply));
  ASSERT_TRUE(again.ok()) << again.status();
  const HeadForwardOutput& output = std::get<HeadForwardReply>(again->body).output;
  EXPECT_EQ(output.max_logits, head.output.max_logits);
  EXPECT_EQ(output.exp_sums, head.output.exp_sums);
  EXPECT_EQ(output.active_pairs, 12);
  EXPECT_EQ(output.recall[0].rows, head.output.recall[0].rows);

  Reply scatter;
  scatter.body = ScatterReply{.applied_steps = 41};
  EXPECT_EQ(std::get<ScatterReply>(DecodeReply(EncodeReply(scatter))->body).applied_steps, 41);

  Reply error;
  error.status = StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kForeignRow,
                                  "row 5 is not here");
  EXPECT_EQ(DecodeReply(EncodeReply(error))->status, error.status);
  EXPECT_TRUE(absl::IsDataLoss(DecodeReply("").status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeReply("?x").status()));
}

}  // namespace
}  // namespace dslide::wire
