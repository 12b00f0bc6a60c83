// Rows that clients name, through the shard's state machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/protocol/reason_words.h"
#include "services/shard/state/core_state.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNamedBatch = 4;

class ShardExplicitRowsTest : public ShardCoreTest {
 protected:
  ExplicitRows<RowId> Named(bool with_weights = true) {
    ExplicitRows<RowId> named;
    named.offsets = {0};
    for (int64_t sample = 0; sample < kNamedBatch; ++sample) {
      const auto rows = trainer_.HeldRows(trainer_.map(), kSampleLabels, 5);
      named.rows.insert(named.rows.end(), rows.begin(), rows.end());
      named.offsets.push_back(static_cast<uint32_t>(named.rows.size()));
    }
    named.logit_offsets = trainer_.Floats(static_cast<int64_t>(named.rows.size()));
    for (size_t i = 0; with_weights && i < named.rows.size(); ++i) {
      named.weights.push_back(static_cast<float>(i % 4));
    }
    return named;
  }
  HeadForwardOp NamingForward(bool with_weights = true) {
    HeadForwardOp op = trainer_.HeadForward(kNamedBatch);
    op.fingerprints.clear();
    op.explicit_rows = Named(with_weights);
    return op;
  }
  RowId Foreign() {
    uint32_t row = 0;
    while (trainer_.map().OwnerOf(RowId(row)) == ShardId(0)) ++row;
    return RowId(row);
  }
  std::map<RowId, float> Logits(const std::vector<float>& hidden) {
    GatherCommand all = trainer_.Gather();
    all.rows = trainer_.HeldRows(trainer_.map(), kSampleLabels, kSampleLabels);
    const Answer gathered = Do(all);
    const RowBlock& rows = std::get<GatherReply>(gathered.reply->body).rows;
    std::map<RowId, float> logits;
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      float& logit = logits[rows.rows[i]];
      logit = rows.biases[i];
      for (int64_t j = 0; j < kSampleDim; ++j) {
        logit += rows.values[i * kSampleDim + j] * hidden[j];
      }
    }
    return logits;
  }
};

TEST_F(ShardExplicitRowsTest, AStepOfNamedRowsChangesThem) {
  const uint64_t before = core_->Digest();
  const Answer answer = Must(NamingForward(), 1);
  const HeadForwardOutput& output = std::get<HeadForwardReply>(answer.reply->body).output;
  EXPECT_EQ(output.max_logits.size(), static_cast<size_t>(kNamedBatch));
  EXPECT_EQ(core_->Digest(), before);
  Must(trainer_.HeadBackward(kNamedBatch), 1);
  EXPECT_NE(core_->Digest(), before);
}

TEST_F(ShardExplicitRowsTest, LabelLogitsComeInTheOrderOfTheRequest) {
  HeadForwardOp op = NamingForward(/*with_weights=*/false);
  op.explicit_rows = {.offsets = op.label_offsets,
                      .rows = op.labels,
                      .logit_offsets = trainer_.Floats(static_cast<int64_t>(op.labels.size())),
                      .weights = {}};
  const Answer answer = Must(op, 1);
  const HeadForwardOutput& output = std::get<HeadForwardReply>(answer.reply->body).output;
  for (int64_t sample = 0; sample < kNamedBatch; ++sample) {
    const auto begin = op.hidden.begin() + sample * kSampleDim;
    std::map<RowId, float> logits = Logits({begin, begin + kSampleDim});
    for (uint32_t i = op.label_offsets[sample]; i < op.label_offsets[sample + 1]; ++i) {
      EXPECT_NEAR(output.label_logits[i], logits[op.labels[i]] + op.explicit_rows.logit_offsets[i],
                  1e-5);
    }
  }
}

TEST_F(ShardExplicitRowsTest, OpenStepsComeBackWithTheirWeights) {
  for (const bool weighted : {false, true}) {
    Must(NamingForward(weighted), weighted ? 2 : 1);
    const std::string state = EncodeCoreState(*core_);
    const auto restored = std::make_unique<ShardCore>(SampleOptions());
    ASSERT_TRUE(RestoreCoreState(state, *restored).ok());
    EXPECT_EQ(EncodeCoreState(*restored), state);
    EXPECT_EQ(restored->contexts().bytes(), core_->contexts().bytes());
  }
}

TEST_F(ShardExplicitRowsTest, WhatIsWrongIsRefusedByNameAndChangesNothing) {
  struct Case {
    const char* reason;
    std::function<void(HeadForwardOp&)> spoil;
  };
  const std::vector<Case> cases = {
      {reason::kForeignRow,
       [&](auto& op) {
         op.explicit_rows = {.offsets = {0, 1, 1, 1, 1}, .rows = {Foreign()}};
       }},
      {reason::kNotAscending,
       [](auto& op) { op.explicit_rows.rows[1] = op.explicit_rows.rows[0]; }},
      {reason::kBadOffsets, [](auto& op) { op.explicit_rows.offsets.back() += 1; }},
      {reason::kBadSize, [](auto& op) { op.explicit_rows.weights.pop_back(); }},
      {reason::kBadSize, [](auto& op) { op.explicit_rows.logit_offsets.pop_back(); }},
      {reason::kBadSize,
       [](auto& op) { op.explicit_rows.offsets.insert(op.explicit_rows.offsets.begin(), 0); }},
      {reason::kOverMagnitude, [](auto& op) { op.explicit_rows.logit_offsets[2] = 101; }},
      {reason::kOverMagnitude, [](auto& op) { op.explicit_rows.logit_offsets[2] = NAN; }},
      {reason::kOutOfRange, [](auto& op) { op.explicit_rows.weights[2] = -1; }},
      {reason::kOutOfRange, [](auto& op) { op.explicit_rows.weights[2] = NAN; }},
      {reason::kBadFingerprint,
       [](auto& op) {
         op.fingerprints = {1, 2, 3};
       }},
      {reason::kBadFingerprint, [](auto& op) { op.explicit_rows = {}; }},
  };
  const uint64_t before = core_->Digest();
  for (const Case& bad : cases) {
    HeadForwardOp op = NamingForward();
    bad.spoil(op);
    const Answer answer = Do(trainer_.Step(op, 1));
    EXPECT_TRUE(absl::IsInvalidArgument(answer.reply->status)) << answer.reply->status;
    EXPECT_EQ(Reason(answer), bad.reason) << answer.reply->status;
    EXPECT_EQ(core_->Digest(), before);
    EXPECT_EQ(core_->contexts().bytes(), 0);
  }
}

TEST_F(ShardExplicitRowsTest, TopKScoresTheCandidatesWithTheirOffsets) {
  TopKCommand top{.model = "m",
                  .table = "head",
                  .batch = 1,
                  .dim = kSampleDim,
                  .hidden = trainer_.Floats(kSampleDim),
                  .k = 3,
                  .hashed = false,
                  .fingerprints = {},
                  .candidates = {}};
  ExplicitRows<RowId>& named = top.candidates;
  named.rows = trainer_.HeldRows(trainer_.map(), kSampleLabels, 6);
  named.offsets = {0, 6};
  named.logit_offsets = trainer_.Floats(6);
  std::map<RowId, float> logits = Logits(top.hidden);
  std::vector<std::pair<float, RowId>> expected;
  for (size_t i = 0; i < 6; ++i) {
    expected.emplace_back(-(logits[named.rows[i]] + named.logit_offsets[i]), named.rows[i]);
  }
  std::sort(expected.begin(), expected.end());
  const Answer answer = Do(top);
  ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
  const auto& reply = std::get<TopKReply>(answer.reply->body);
  EXPECT_TRUE(reply.given);
  EXPECT_FALSE(reply.scored.exact);
  EXPECT_EQ(reply.scored.scored_rows, 6);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reply.scored.rows[i], expected[i].second);
    EXPECT_NEAR(reply.scored.logits[i], -expected[i].first, 1e-5);
  }
  named.rows[0] = Foreign();
  std::sort(named.rows.begin(), named.rows.end());
  EXPECT_EQ(Reason(Do(top)), reason::kForeignRow);
  named.rows.assign(6, named.rows[5]);
  EXPECT_EQ(Reason(Do(top)), reason::kNotAscending);
  named = {.offsets = {0, 0}, .rows = {}, .logit_offsets = {}, .weights = {}};
  const Answer none = Do(top);
  ASSERT_TRUE(none.reply->status.ok()) << none.reply->status;
  EXPECT_EQ(std::get<TopKReply>(none.reply->body).scored.rows, std::vector<RowId>(3, kNoRow));
}

}  // namespace
}  // namespace dslide::shard
