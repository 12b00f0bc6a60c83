#include "core/wire/stored_rows_codec.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace dslide::wire {
namespace {

const ReadRowsCommand kAsked = {.model = "m", .table = "t", .first = 5, .end = 100};

ReadRowsReply SampleAnswer() {
  return {.block = {.rows = {RowId(5), RowId(40)}, .sizes = {1, 3}, .records = "abcd"},
          .next = 50,
          .applied_steps = 9};
}

TEST(StoredRowsCodecTest, QuestionAndAnswerComeBack) {
  v1::ReadRowsRequest request;
  EncodeReadRows(kAsked, &request);
  const auto asked = DecodeReadRows(request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->first, 5);
  EXPECT_EQ(asked->end, 100);
  v1::ReadRowsResponse response;
  EncodeReadRows(SampleAnswer(), &response);
  const auto answer = DecodeReadRows(response, *asked);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->block.rows, SampleAnswer().block.rows);
  EXPECT_EQ(answer->block.records, "abcd");
  EXPECT_EQ(answer->next, 50);
  EXPECT_EQ(answer->applied_steps, 9);
}

TEST(StoredRowsCodecTest, AnswersThatContradictTheQuestionAreErrors) {
  const std::vector<std::function<void(ReadRowsReply&)>> spoils = {
      [](ReadRowsReply& reply) { reply.block.rows[0] = RowId(4); },
      [](ReadRowsReply& reply) { reply.block.rows[1] = RowId(50); },
      [](ReadRowsReply& reply) { reply.next = 101; },
      [](ReadRowsReply& reply) { reply.block.records = "abc"; },
      [](ReadRowsReply& reply) { reply = {.block = {}, .next = 5}; },  // gets no further
  };
  for (size_t i = 0; i < spoils.size(); ++i) {
    ReadRowsReply reply = SampleAnswer();
    spoils[i](reply);
    v1::ReadRowsResponse response;
    EncodeReadRows(reply, &response);
    EXPECT_EQ(DecodeReadRows(response, kAsked).status().code(), absl::StatusCode::kInternal) << i;
  }
}

}  // namespace
}  // namespace dslide::wire
