#include "core/wire/steps/component_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/steps/read_codec.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_codec.h"
#include "tests/unit/core/wire/steps/decoded_step.h"
#include "tests/unit/core/wire/wire_samples.h"

namespace dslide::wire {
namespace {

SparseInputs Inputs() {
  return {.offsets = {0, 2, 2, 3},
          .features = {RowId(3), RowId(70000), RowId(0)},
          .values = {0.5f, -1, 2}};
}

std::vector<StepOp> ComponentOps() {
  return {
      AppendPointsOp{.table = "points",
                     .numbers = {4, 5, 0xffffffff},
                     .inputs = Inputs(),
                     .label_offsets = {0, 1, 3, 3},
                     .labels = {RowId(7), RowId(1), RowId(2)},
                     .times = {9, 9, 0},
                     .expire_before = 8},
      PutRecordOp{.table = "trees", .row = RowId(2), .record = "abcd"},
      GetRecordOp{.table = "fusion", .row = RowId(0)},
      SolveRowsOp{
          .table = "linear", .tree = -1, .level = 0, .first = 5, .count = 10, .count_points = true},
      FindNeighboursOp{.table = "points",
                       .inputs = Inputs(),
                       .k = 100,
                       .left_out = {1, 2, 0xffffffff},
                       .known_points = 70000},
      ScoreRowsOp{.table = "linear",
                  .inputs = Inputs(),
                  .row_offsets = {0, 2, 2, 3},
                  .rows = {RowId(1), RowId(9), RowId(4)}},
      AppendPointsOp{.table = "points",
                     .inputs = {.offsets = {0}, .features = {}, .values = {}},
                     .label_offsets = {0},
                     .labels = {},
                     .expire_before = 8},
      LoadRowsOp{.table = "labels",
                 .block = {.rows = {RowId(3), RowId(9)}, .sizes = {2, 1}, .records = "abc"},
                 .applied_steps = 7,
                 .finish = true}};
}

v1::StepRequest ComponentRequest(const StepOp& op) {
  v1::StepRequest request;
  EncodeStepRequest(SampleStep(op), {}, &request);
  v1::StepRequest parsed;
  EXPECT_TRUE(parsed.ParseFromString(request.SerializeAsString()));
  return parsed;
}

TEST(ComponentCodecTest, EveryOperationComesBack) {
  for (const StepOp& op : ComponentOps()) {
    const v1::StepRequest sent = ComponentRequest(op);
    const auto decoded = DecodedStep(sent);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->op.index(), op.index());
    EXPECT_EQ(ComponentRequest(decoded->op).SerializeAsString(), sent.SerializeAsString());
  }
}

TEST(ComponentCodecTest, ReadsTakeWhatChangesNothing) {
  for (const StepOp& op : ComponentOps()) {
    v1::ReadRequest request;
    EncodeReadRequest({.model = "m", .topology_version = 3, .op = op}, {}, &request);
    const auto decoded = DecodeReadRequest(request);
    const bool changes =
        std::holds_alternative<AppendPointsOp>(op) || std::holds_alternative<PutRecordOp>(op) ||
        std::holds_alternative<SolveRowsOp>(op) || std::holds_alternative<LoadRowsOp>(op);
    ASSERT_EQ(decoded.ok(), !changes) << decoded.status();
    if (changes) {
      EXPECT_EQ(ReasonOf(decoded.status()), reason::kBadEnum);
      continue;
    }
    EXPECT_EQ(decoded->model, "m");
    EXPECT_EQ(decoded->topology_version, 3u);
    EXPECT_EQ(decoded->op.index(), op.index());
  }
  EXPECT_EQ(ReasonOf(DecodeReadRequest(v1::ReadRequest()).status()), reason::kBadName);
}

TEST(ComponentCodecTest, EveryAnswerComesBack) {
  const std::vector<ReplyBody> bodies = {
      AppendPointsReply{.points = 7, .next = int64_t{1} << 32},
      PutRecordReply{},
      GetRecordReply{.record = "abc"},
      SolveRowsReply{.rows = 3, .entries = 44, .label_points = {5, 0, 1}},
      FindNeighboursReply{.counts = {2, 0, 1},
                          .points = {RowId(9), RowId(3), RowId(1)},
                          .similarities = {0.5f, 0.25f, 1},
                          .label_offsets = {0, 2, 2, 3},
                          .labels = {RowId(1), RowId(2), RowId(0)}},
      FindNeighboursReply{.counts = {0, 2},
                          .points = {RowId(9), RowId(3)},
                          .similarities = {0.5f, 0.25f},
                          .label_offsets = {0},
                          .labels = {},
                          .labels_left_out = true},
      FindNeighboursReply{
          .counts = {0, 0}, .points = {}, .similarities = {}, .label_offsets = {0}, .labels = {}},
      ScoreRowsReply{.scores = {1, -2.5f}},
      LoadRowsReply{}};
  for (const ReplyBody& body : bodies) {
    v1::StepResponse response;
    EncodeStepResponse(5, 6, {.status = absl::OkStatus(), .body = body}, ActivationType::kF32,
                       &response);
    const auto decoded = DecodeStepResponse(response);
    ASSERT_TRUE(decoded.ok() && decoded->reply.status.ok());
    ASSERT_EQ(decoded->reply.body.index(), body.index());
    v1::StepResponse again;
    EncodeStepResponse(5, 6, decoded->reply, ActivationType::kF32, &again);
    EXPECT_EQ(again.SerializeAsString(), response.SerializeAsString());
  }
}

TEST(ComponentCodecTest, LabelsThatAreThereAndLeftOutContradictEachOther) {
  v1::StepResponse response;
  v1::FindNeighboursResult& found = *response.mutable_find_neighbours();
  found.set_counts("\0\0\0\0", 4);
  found.set_labels_left_out(true);
  EXPECT_TRUE(DecodeStepResponse(response).ok());
  found.set_packed_label_ids("\x01");
  EXPECT_TRUE(absl::IsInternal(DecodeStepResponse(response).status()));
}

TEST(ComponentCodecTest, WrongRequestsAreRefused) {
  struct Case {
    size_t op;
    std::function<void(v1::StepRequest&)> spoil;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {0, [](auto& r) { r.mutable_append_points()->set_table("A"); }, reason::kBadName},
      {0, [](auto& r) { r.mutable_append_points()->mutable_inputs()->set_batch(0); },
       reason::kOutOfRange},
      {0, [](auto& r) { r.mutable_append_points()->mutable_inputs()->set_batch(4); },
       reason::kBadSize},
      {0, [](auto& r) { r.mutable_append_points()->mutable_numbers()->pop_back(); },
       reason::kBadSize},
      {0, [](auto& r) { (*r.mutable_append_points()->mutable_numbers())[4] = 4; },
       reason::kNotAscending},
      {0, [](auto& r) { r.mutable_append_points()->mutable_times()->resize(8); }, reason::kBadSize},
      {6, [](auto& r) { r.mutable_append_points()->set_times("1234"); }, reason::kOutOfRange},
      {0, [](auto& r) { r.mutable_append_points()->clear_packed_label_ids(); }, reason::kBadSize},
      {1, [](auto& r) { r.mutable_put_record()->clear_record(); }, reason::kBadSize},
      {1,
       [](auto& r) {
         r.mutable_put_record()->set_record(
             std::string(static_cast<size_t>(kMaxRecordBytes) + 1, 'x'));
       },
       reason::kBadSize},
      {2, [](auto& r) { r.mutable_get_record()->set_table(""); }, reason::kBadName},
      {3, [](auto& r) { r.mutable_solve_rows()->set_table("?"); }, reason::kBadName},
      {4, [](auto& r) { r.mutable_find_neighbours()->set_k(0); }, reason::kOutOfRange},
      {4, [](auto& r) { r.mutable_find_neighbours()->set_k(1001); }, reason::kOutOfRange},
      {4, [](auto& r) { r.mutable_find_neighbours()->mutable_left_out()->pop_back(); },
       reason::kBadSize},
      {4,
       [](auto& r) {
         const float nan = std::nanf("");
         r.mutable_find_neighbours()->mutable_inputs()->mutable_values()->replace(
             0, 4, reinterpret_cast<const char*>(&nan), 4);
       },
       reason::kNotFinite},
      {5, [](auto& r) { r.mutable_score_rows()->clear_packed_row_ids(); }, reason::kBadSize},
      {7, [](auto& r) { r.mutable_load_rows()->set_table(""); }, reason::kBadName},
      {7, [](auto& r) { r.mutable_load_rows()->set_applied_steps(-1); }, reason::kOutOfRange},
      {7, [](auto& r) { r.mutable_load_rows()->set_applied_steps(int64_t{1} << 32); },
       reason::kOutOfRange},
      {7, [](auto& r) { r.mutable_load_rows()->mutable_rows()->set_records("ab"); },
       reason::kBadSize},
      {7, [](auto& r) { r.mutable_load_rows()->mutable_rows()->mutable_sizes()->pop_back(); },
       reason::kBadSize},
      {7, [](auto& r) { (*r.mutable_load_rows()->mutable_rows()->mutable_sizes())[0] = 0; },
       reason::kBadSize},
      {7, [](auto& r) { (*r.mutable_load_rows()->mutable_rows()->mutable_row_ids())[4] = 3; },
       reason::kNotAscending},
  };
  for (const Case& wrong : cases) {
    v1::StepRequest request = ComponentRequest(ComponentOps()[wrong.op]);
    wrong.spoil(request);
    const auto decoded = DecodedStep(request);
    ASSERT_FALSE(decoded.ok()) << wrong.op << " " << wrong.reason;
    EXPECT_EQ(ReasonOf(decoded.status()), wrong.reason) << decoded.status();
  }
}

}  // namespace
}  // namespace dslide::wire
