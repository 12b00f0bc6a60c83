#include "core/wire/row_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/matrix_codec.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/envelope_codec.h"
#include "tests/unit/core/wire/wire_samples.h"

namespace dslide::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectEqual(const RowBlock& a, const RowBlock& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.biases, b.biases);
  if (!a.rows.empty()) {
    EXPECT_EQ(a.dim, b.dim);
  }
}

// --- Gather

TEST(GatherCodecTest, RequestsComeBack) {
  GatherCall by_id;
  by_id.command = {.model = "m",
                   .table = "t",
                   .topology_version = 3,
                   .by_fingerprint = false,
                   .rows = {RowId(1), RowId(5)},
                   .batch = 0,
                   .fingerprints = {},
                   .max_active = 0};
  by_id.element_type = ActivationType::kBf16;
  GatherCall by_print;
  by_print.command = {.model = "m",
                      .table = "t",
                      .topology_version = 0,
                      .by_fingerprint = true,
                      .rows = {},
                      .batch = 2,
                      .fingerprints = {1, 2, 3, 4},
                      .max_active = 50};
  for (const GatherCall& call : {by_id, by_print}) {
    v1::GatherRequest request;
    EncodeGatherRequest(call, &request);
    const auto got = DecodeGatherRequest(request);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->element_type, call.element_type);
    EXPECT_EQ(got->command.rows, call.command.rows);
    EXPECT_EQ(got->command.by_fingerprint, call.command.by_fingerprint);
    EXPECT_EQ(got->command.fingerprints, call.command.fingerprints);
    EXPECT_EQ(got->command.batch, call.command.batch);
    EXPECT_EQ(got->command.max_active, call.command.max_active);
    EXPECT_EQ(got->command.topology_version, call.command.topology_version);
  }
}

TEST(GatherCodecTest, BadRequestsAreRefused) {
  v1::GatherRequest good;
  good.set_model("m");
  good.set_table("t");
  EXPECT_EQ(ReasonOf(DecodeGatherRequest(good).status()), reason::kMissingField);
  EncodeRowIds({RowId(1)}, good.mutable_rows()->mutable_row_ids());
  ASSERT_TRUE(DecodeGatherRequest(good).ok());
  v1::GatherRequest bad = good;
  bad.set_model("");
  EXPECT_EQ(ReasonOf(DecodeGatherRequest(bad).status()), reason::kBadName);
  bad = good;
  bad.mutable_rows()->mutable_row_ids()->assign((int64_t{1} << 22) + 4, '\0');
  EXPECT_EQ(ReasonOf(DecodeGatherRequest(bad).status()), reason::kOverLimit);
  bad = good;
  bad.set_element_type(static_cast<v1::ElementType>(9));
  EXPECT_EQ(ReasonOf(DecodeGatherRequest(bad).status()), reason::kBadEnum);
  bad.clear_element_type();
  bad.mutable_fingerprints()->set_batch(0);
  EXPECT_EQ(ReasonOf(DecodeGatherRequest(bad).status()), reason::kOutOfRange);
  bad.mutable_fingerprints()->set_batch(2);
  bad.mutable_fingerprints()->set_fingerprints("1234");
  EXPECT_EQ(ReasonOf(DecodeGatherRequest(bad).status()), reason::kBadSize);
  bad.mutable_fingerprints()->set_fingerprints("12345678");
  bad.mutable_fingerprints()->set_max_active(-1);
  EXPECT_EQ(ReasonOf(DecodeGatherRequest(bad).status()), reason::kOutOfRange);
}

absl::StatusOr<GatherReply> ThroughChunks(const GatherReply& reply, int64_t chunk_bytes,
                                          int64_t* chunks) {
  GatherChunker chunker(reply, ActivationType::kF32, chunk_bytes);
  GatherAssembler assembler;
  v1::GatherResponse message;
  for (*chunks = 0; chunker.Next(&message); ++*chunks) {
    const absl::Status added = assembler.Add(message);
    if (!added.ok()) return added;
  }
  return std::move(assembler).Finish();
}

TEST(GatherCodecTest, AnswersComeBackWhateverTheSizeOfAChunk) {
  for (const bool with_bias : {false, true}) {
    for (const int64_t rows : {0, 1, 7, 100}) {
      GatherReply reply;
      reply.rows = SampleBlock(rows, 5, with_bias);
      for (const int64_t bytes : {1, 60, 1000, 1 << 20}) {
        int64_t chunks = 0;
        const auto got = ThroughChunks(reply, bytes, &chunks);
        ASSERT_TRUE(got.ok()) << got.status();
        ExpectEqual(got->rows, reply.rows);
        EXPECT_GE(chunks, 1);
        const int64_t expected = bytes == 1 ? std::max<int64_t>(1, rows) : 1;
        if (bytes == 1 || bytes == 1 << 20) {
          EXPECT_EQ(chunks, expected);
        }
      }
    }
  }
}

TEST(GatherCodecTest, SelectionsTravelInTheFirstChunk) {
  GatherReply reply;
  reply.rows = SampleBlock(3, 2, true);
  reply.sample_offsets = {0, 2, 3};
  reply.sample_rows = {RowId(1), RowId(4), RowId(7)};
  int64_t chunks = 0;
  const auto got = ThroughChunks(reply, 1 << 20, &chunks);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(chunks, 2);
  EXPECT_EQ(got->sample_offsets, reply.sample_offsets);
  EXPECT_EQ(got->sample_rows, reply.sample_rows);
  ExpectEqual(got->rows, reply.rows);
}

TEST(GatherCodecTest, MissingOrSurplusRowsAreNoticed) {
  GatherReply reply;
  reply.rows = SampleBlock(10, 2, false);
  GatherChunker chunker(reply, ActivationType::kF32, 1);
  GatherAssembler cut;
  v1::GatherResponse message;
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(chunker.Next(&message));
    ASSERT_TRUE(cut.Add(message).ok());
  }
  EXPECT_TRUE(absl::IsInternal(std::move(cut).Finish().status()));
  GatherAssembler twice;
  GatherChunker again(reply, ActivationType::kF32, 1 << 20);
  ASSERT_TRUE(again.Next(&message));
  ASSERT_TRUE(twice.Add(message).ok());
  EXPECT_TRUE(absl::IsInternal(twice.Add(message)));
}

// --- Scatter

ScatterCommand SampleScatter(int64_t rows, bool with_bias) {
  return {.envelope = SampleEnvelope(),
          .table = "t",
          .mode = ScatterMode::kAdd,
          .rows = SampleBlock(rows, 3, with_bias)};
}

TEST(ScatterCodecTest, CommandsComeBackWhateverTheSizeOfAChunk) {
  for (const int64_t rows : {0, 1, 9, 200}) {
    for (const int64_t bytes : {1, 100, 1 << 20}) {
      const ScatterCommand command = SampleScatter(rows, true);
      ScatterAssembler assembler(1 << 20);
      for (const auto& message : EncodeScatter(command, ActivationType::kF32, bytes)) {
        ASSERT_TRUE(assembler.Add(message).ok());
      }
      const auto got = std::move(assembler).Finish();
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectEqual(got->received->ToBlock(), command.rows);
      EXPECT_EQ(got->mode, ScatterMode::kAdd);
      EXPECT_EQ(got->envelope.sequence, 12u);
      EXPECT_EQ(got->table, "t");
    }
  }
}

TEST(ScatterCodecTest, ACallThatEndsTooEarlyIsNoCall) {
  const auto messages = EncodeScatter(SampleScatter(9, false), ActivationType::kF32, 1);
  ASSERT_EQ(messages.size(), 9u);
  ScatterAssembler cut(1 << 20);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(cut.Add(messages[i]).ok());
  const auto command = std::move(cut).Finish();
  EXPECT_EQ(ReasonOf(command.status()), reason::kIncomplete);
  EXPECT_THAT(std::string(command.status().message()), HasSubstr("8 of 9 rows"));
  ScatterAssembler empty(1 << 20);
  EXPECT_EQ(ReasonOf(std::move(empty).Finish().status()), reason::kMissingField);
}

std::string RefusalOf(const std::vector<v1::ScatterRequest>& messages,
                      int64_t max_bytes = 1 << 20) {
  ScatterAssembler assembler(max_bytes);
  for (const auto& message : messages) {
    if (const absl::Status added = assembler.Add(message); !added.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(added)) << added;
      return ReasonOf(added);
    }
  }
  return "";
}

TEST(ScatterCodecTest, BadMessagesAreRefused) {
  const auto good = EncodeScatter(SampleScatter(4, true), ActivationType::kF32, 1);
  ASSERT_EQ(RefusalOf(good), "");
  auto bad = good;
  bad[0].clear_envelope();
  EXPECT_EQ(RefusalOf(bad), reason::kMissingField);
  bad = good;
  bad[0].set_mode(v1::SCATTER_MODE_UNSPECIFIED);
  EXPECT_EQ(RefusalOf(bad), reason::kBadEnum);
  bad = good;
  bad[2].set_table("t");
  EXPECT_EQ(RefusalOf(bad), reason::kOutOfRange);
  bad = good;
  std::swap(bad[2], bad[3]);
  EXPECT_EQ(RefusalOf(bad), reason::kNotAscending);
  bad = good;
  bad[3] = bad[2];
  EXPECT_EQ(RefusalOf(bad), reason::kNotAscending);
  bad = good;
  bad[1].mutable_rows()->clear_biases();
  EXPECT_EQ(RefusalOf(bad), reason::kWrongBiases);
  bad = good;
  bad[0].set_total_rows(3);
  EXPECT_EQ(RefusalOf(bad), reason::kBadSize);
  bad = good;
  bad[0].set_total_rows(kMaxBulkRows + 1);
  EXPECT_EQ(RefusalOf(bad), reason::kOutOfRange);
  bad = good;
  bad[1].mutable_rows()->mutable_values()->set_cols(2);
  EXPECT_EQ(RefusalOf(bad), reason::kBadSize);
  EXPECT_EQ(RefusalOf(good, 100), reason::kOverLimit);
}

TEST(ScatterCodecTest, TheEnvelopeIsKnownWhenALaterPartIsWrong) {
  auto messages = EncodeScatter(SampleScatter(2, false), ActivationType::kF32);
  messages[0].set_table("NO");
  ScatterAssembler assembler(1 << 20);
  EXPECT_FALSE(assembler.Add(messages[0]).ok());
  EXPECT_TRUE(assembler.has_envelope());
  EXPECT_EQ(assembler.envelope().sequence, 12u);
}

// --- TopK

TEST(TopKCodecTest, RequestsAndAnswersComeBack) {
  const TopKCommand command = {.model = "m",
                               .table = "t",
                               .batch = 2,
                               .dim = 2,
                               .hidden = {1, 2, 3, 4},
                               .k = 3,
                               .hashed = true,
                               .fingerprints = {1, 2, 3, 4},
                               .budget = 700};
  v1::TopKRequest request;
  EncodeTopKRequest(command, ActivationType::kF32, &request);
  const auto got = DecodeTopKRequest(request);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->hidden, command.hidden);
  EXPECT_EQ(got->k, 3);
  EXPECT_EQ(got->batch, 2);
  EXPECT_TRUE(got->hashed);
  EXPECT_EQ(got->fingerprints, command.fingerprints);
  EXPECT_EQ(got->budget, 700);
  request.set_budget(0xffffffffu);
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(request).status()), reason::kOutOfRange);
  request.set_budget(700);
  request.set_mode(v1::TOP_K_MODE_EXACT);
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(request).status()), reason::kBadSize);

  TopKReply reply;
  reply.k = 2;
  reply.scored.rows = {RowId(4), RowId(2), RowId(1), RowId(0xffffffffu)};
  reply.scored.logits = {3, 2, 1, -INFINITY};
  reply.scored.scored_rows = 99;
  reply.scored.exact = false;
  v1::TopKResponse response;
  EncodeTopKResponse(reply, &response);
  const auto answer = DecodeTopKResponse(response, 2, 2);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->scored.rows, reply.scored.rows);
  EXPECT_EQ(answer->scored.logits, reply.scored.logits);
  EXPECT_EQ(answer->scored.scored_rows, 99);
  EXPECT_FALSE(answer->scored.exact);
  EXPECT_TRUE(absl::IsInternal(DecodeTopKResponse(response, 2, 3).status()));
}

TopKCommand GivenTopK() {
  return {.model = "m",
          .table = "t",
          .batch = 2,
          .dim = 2,
          .hidden = {1, 2, 3, 4},
          .k = 3,
          .hashed = false,
          .fingerprints = {},
          .candidates = {.offsets = {0, 2, 3},
                         .rows = {RowId(5), RowId(6), RowId(2)},
                         .logit_offsets = {0.5f, 0.0f, -2.0f},
                         .weights = {}}};
}

TEST(TopKCodecTest, CandidatesComeBack) {
  for (const ActivationType type : {ActivationType::kF32, ActivationType::kBf16}) {
    v1::TopKRequest request;
    EncodeTopKRequest(GivenTopK(), type, &request);
    EXPECT_EQ(request.mode(), v1::TOP_K_MODE_GIVEN);
    const auto got = DecodeTopKRequest(request);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->candidates.offsets, GivenTopK().candidates.offsets);
    EXPECT_EQ(got->candidates.rows, GivenTopK().candidates.rows);
    EXPECT_EQ(got->candidates.logit_offsets, GivenTopK().candidates.logit_offsets);
    EXPECT_FALSE(got->hashed);
  }
  TopKReply reply;
  reply.k = 1;
  reply.given = true;
  reply.scored = {.rows = {RowId(4)}, .logits = {3}, .scored_rows = 2, .exact = false};
  v1::TopKResponse response;
  EncodeTopKResponse(reply, &response);
  EXPECT_EQ(response.mode(), v1::TOP_K_MODE_GIVEN);
  const auto answer = DecodeTopKResponse(response, 1, 1);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->given);
  EXPECT_FALSE(answer->scored.exact);
}

TEST(TopKCodecTest, BadCandidatesAreRefused) {
  v1::TopKRequest good;
  EncodeTopKRequest(GivenTopK(), ActivationType::kF32, &good);
  v1::TopKRequest bad = good;
  bad.set_mode(v1::TOP_K_MODE_EXACT);
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kBadSize);
  bad = good;
  bad.clear_packed_row_ids();
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kBadSize) << "offsets of nothing";
  bad.clear_logit_offsets();
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kMissingField);
  bad = good;
  bad.set_packed_row_ids(std::string("\x02\x05", 2));
  const absl::Status cut = DecodeTopKRequest(bad).status();
  EXPECT_EQ(ReasonOf(cut), reason::kBadSize);
  EXPECT_EQ(cut.message().find("packed_row_ids"), 0u) << cut;
  bad = good;
  bad.set_logit_offsets("abc");
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kBadSize);
}

TEST(TopKCodecTest, BadRequestsAreRefused) {
  v1::TopKRequest good;
  EncodeTopKRequest({.model = "m",
                     .table = "t",
                     .batch = 2,
                     .dim = 2,
                     .hidden = {1, 2, 3, 4},
                     .k = 3,
                     .hashed = false,
                     .fingerprints = {}},
                    ActivationType::kF32, &good);
  ASSERT_TRUE(DecodeTopKRequest(good).ok());
  v1::TopKRequest bad = good;
  bad.set_k(0);
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kOutOfRange);
  bad.set_k(1025);
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kOutOfRange);
  bad = good;
  bad.set_mode(v1::TOP_K_MODE_UNSPECIFIED);
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kBadEnum);
  bad = good;
  bad.clear_hidden();
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kBadEnum);
  bad = good;
  EncodeMatrix(60000, 1, std::vector<float>(60000), {}, bad.mutable_hidden());
  bad.set_k(1024);
  EXPECT_EQ(ReasonOf(DecodeTopKRequest(bad).status()), reason::kOverLimit);
}

}  // namespace
}  // namespace dslide::wire
