#include "core/wire/steps/step_answer_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "tests/unit/core/wire/wire_samples.h"

namespace dslide::wire {
namespace {

Reply HeadReply() {
  HeadForwardOutput output;
  output.max_logits = {1.0f, -INFINITY};
  output.exp_sums = {2.0f, 0.0f};
  output.label_logits = {0.5f, 0.25f, -1.0f};
  output.active_pairs = 77;
  output.distinct_rows = 55;
  output.recall = {{.sample = 1, .rows = {RowId(9), RowId(3)}, .logits = {2, 1}, .found = {1, 0}}};
  return {.status = absl::OkStatus(), .body = HeadForwardReply{.output = output}};
}

std::vector<Reply> AllReplies() {
  const MatrixReply matrix = {.rows = 2, .cols = 2, .data = {1, 2, 3, 4}};
  const MatrixReply sparse = {.rows = 2, .cols = 3, .data = {0, 2, 0, 0, 0, 0}, .sparse = true};
  return {{.status = {}, .body = EmbedForwardReply{.partial = matrix}},
          HeadReply(),
          {.status = {}, .body = HeadBackwardReply{.hidden_gradient = matrix, .rejected_rows = 3}},
          {.status = {}, .body = HeadBackwardReply{.hidden_gradient = sparse}},
          {.status = {}, .body = EmbedBackwardReply{.distinct_rows = 5, .rejected_rows = 2}},
          {.status = {}, .body = DenseGatherReply{.rows = SampleBlock(4, 3, true)}},
          {.status = {}, .body = DenseScatterReply{}}};
}

v1::StepResponse Answered(const Reply& reply) {
  v1::StepResponse response;
  EncodeStepResponse(12, 4, reply, ActivationType::kF32, &response);
  v1::StepResponse parsed;
  EXPECT_TRUE(parsed.ParseFromString(response.SerializeAsString()));
  return parsed;
}

TEST(StepAnswerCodecTest, EveryAnswerComesBack) {
  for (const Reply& reply : AllReplies()) {
    const auto answer = DecodeStepResponse(Answered(reply));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->sequence, 12u);
    EXPECT_EQ(answer->generation, 4u);
    EXPECT_EQ(answer->reply.body.index(), reply.body.index());
    EXPECT_EQ(Answered(answer->reply).SerializeAsString(), Answered(reply).SerializeAsString());
  }
}

TEST(StepAnswerCodecTest, ErrorsKeepCodeReasonAndPause) {
  const Reply reply = {
      .status = OverloadStatus(reason::kContextsFull, "too many", absl::Milliseconds(40)),
      .body = {}};
  const auto answer = DecodeStepResponse(Answered(reply));
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(answer->reply.status));
  EXPECT_EQ(ReasonOf(answer->reply.status), reason::kContextsFull);
  EXPECT_EQ(RetryAfterMs(answer->reply.status), 40);
  EXPECT_EQ(answer->reply.status.message(), "too many");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answer->reply.body));
}

TEST(StepAnswerCodecTest, LongMessagesAreCut) {
  const Reply reply = {.status = absl::InternalError(std::string(5000, 'x')), .body = {}};
  EXPECT_LE(Answered(reply).error().message().size(), 1024u);
}

TEST(StepAnswerCodecTest, AnErrorWithoutAKnownCodeIsUnknown) {
  for (const int code : {0, -1, 17, 400}) {
    v1::StepError error;
    error.set_code(code);
    EXPECT_TRUE(absl::IsUnknown(DecodeStepError(error))) << code;
  }
}

TEST(StepAnswerCodecTest, AReplyOfAnotherCommandIsAnInternalError) {
  const auto answer = DecodeStepResponse(Answered({.status = {}, .body = CloseClientReply{}}));
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(absl::IsInternal(answer->reply.status));
}

TEST(StepAnswerCodecTest, AnswersThatContradictThemselvesAreInternalErrors) {
  v1::StepResponse response = Answered(HeadReply());
  response.mutable_head_forward()->set_exp_sums("1234");
  EXPECT_TRUE(absl::IsInternal(DecodeStepResponse(response).status()));
  response = Answered(HeadReply());
  response.mutable_head_forward()->mutable_recall_probes(0)->set_sample(2);
  EXPECT_TRUE(absl::IsInternal(DecodeStepResponse(response).status()));
  response = Answered(HeadReply());
  response.mutable_head_forward()->mutable_recall_probes(0)->set_found("1");
  EXPECT_TRUE(absl::IsInternal(DecodeStepResponse(response).status()));
  response.clear_result();
  EXPECT_TRUE(absl::IsInternal(DecodeStepResponse(response).status()));
}

}  // namespace
}  // namespace dslide::wire
