#include "services/shard/state/shard_core.h"

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

TEST_F(ShardCoreTest, AWholeStepChangesTheRows) {
  const uint64_t before = core_->Digest();
  Must(trainer_.EmbedForward(), 1);
  EXPECT_EQ(core_->Digest(), before);
  Must(trainer_.HeadForward(), 1);
  EXPECT_EQ(core_->Digest(), before);
  EXPECT_EQ(core_->contexts().count(), 2);
  Must(trainer_.HeadBackward(), 1);
  const uint64_t between = core_->Digest();
  EXPECT_NE(between, before);
  Must(trainer_.EmbedBackward(), 1);
  EXPECT_NE(core_->Digest(), between);
  Must(trainer_.DenseScatter(), 1);
  EXPECT_EQ(core_->contexts().count(), 0);
  EXPECT_EQ(core_->contexts().bytes(), 0);
  const Answer answer = Do(DescribeModelCommand{.model = "m", .with_digests = true});
  for (const auto& table : std::get<DescribeModelReply>(answer.reply->body).tables) {
    EXPECT_EQ(table.applied_steps, 1) << table.name;
    EXPECT_NE(table.digest, 0u);
  }
}

TEST_F(ShardCoreTest, SumsThatAreNotWantedAreZero) {
  EmbedForwardOp op = trainer_.EmbedForward();
  const auto sums = [&] {
    const Answer answer = Must(op, 1);
    return std::get<EmbedForwardReply>(answer.reply->body).partial;
  };
  const MatrixReply whole = sums();
  EXPECT_FALSE(whole.sparse);
  constexpr int64_t kBytes = (kSampleDim + 7) / 8;
  for (int64_t i = 0; i < 4 * kBytes; ++i) op.wanted.push_back(static_cast<uint8_t>(0x53 + 7 * i));
  const MatrixReply some = sums();
  EXPECT_TRUE(some.sparse);
  ASSERT_EQ(some.data.size(), whole.data.size());
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < kSampleDim; ++c) {
      const bool is_wanted = (op.wanted[i * kBytes + c / 8] >> (c % 8) & 1) != 0;
      const float sum = whole.data[i * kSampleDim + c];
      EXPECT_NE(sum, 0.0f);
      EXPECT_EQ(some.data[i * kSampleDim + c], is_wanted ? sum : 0.0f) << i << " " << c;
    }
  }
}

TEST_F(ShardCoreTest, ARectifiedGradientIsTheWholeOneWhereHiddenIsNotZero) {
  HeadForwardOp forward = trainer_.HeadForward();
  for (size_t i = 0; i < forward.hidden.size(); ++i) {
    if (i % 3 != 0) forward.hidden[i] = 0.0f;
  }
  // A step that changes nothing shows the whole gradient of the same rows.
  HeadBackwardOp backward = trainer_.HeadBackward();
  backward.learning_rate = 0.0;
  const auto gradient = [&](bool rectified) {
    Must(forward, 1);
    backward.rectified = rectified;
    const Answer answer = Must(backward, 1);
    return std::get<HeadBackwardReply>(answer.reply->body).hidden_gradient;
  };
  const MatrixReply whole = gradient(false);
  const MatrixReply rectified = gradient(true);
  EXPECT_FALSE(whole.sparse);
  EXPECT_TRUE(rectified.sparse);
  ASSERT_EQ(rectified.data.size(), whole.data.size());
  for (size_t i = 0; i < whole.data.size(); ++i) {
    EXPECT_NE(whole.data[i], 0.0f) << i;
    EXPECT_EQ(rectified.data[i], forward.hidden[i] == 0.0f ? 0.0f : whole.data[i]) << i;
  }
}

TEST_F(ShardCoreTest, TheEmbeddingSumsItsRows) {
  const Answer rows = Do(trainer_.Gather("input"));
  const auto& block = std::get<GatherReply>(rows.reply->body).rows;
  EmbedForwardOp op;
  op.table = "input";
  op.rows = block.rows;  // global order, which is not the order of memory
  for (size_t i = 0; i < op.rows.size(); ++i) op.values.push_back(static_cast<float>(i) - 2.5f);
  op.offsets = {0, static_cast<uint32_t>(op.rows.size()), static_cast<uint32_t>(op.rows.size())};
  const Answer answer = Must(op, 1);
  const MatrixReply& sums = std::get<EmbedForwardReply>(answer.reply->body).partial;
  ASSERT_EQ(sums.rows, 2);
  for (int64_t j = 0; j < kSampleDim; ++j) {
    float expected = 0;
    for (size_t i = 0; i < block.rows.size(); ++i) {
      expected += (static_cast<float>(i) - 2.5f) * block.values[i * kSampleDim + j];
    }
    EXPECT_NEAR(sums.data[j], expected, 1e-5);
    EXPECT_EQ(sums.data[kSampleDim + j], 0.0f);
  }
}

TEST_F(ShardCoreTest, LabelLogitsComeInTheOrderOfTheRequest) {
  HeadForwardOp op = trainer_.HeadForward(1);
  // Global order is not the order of memory: these lie in different slots.
  op.labels = trainer_.HeldRows(trainer_.map(), kSampleLabels, 40);
  op.label_offsets = {0, static_cast<uint32_t>(op.labels.size())};
  op.label_targets = {0.025f};
  GatherCommand gather = trainer_.Gather();
  gather.rows = op.labels;
  const Answer gathered = Do(gather);
  const RowBlock& rows = std::get<GatherReply>(gathered.reply->body).rows;
  const std::vector<float> hidden = op.hidden;
  const Answer answer = Must(op, 1);
  const auto& logits = std::get<HeadForwardReply>(answer.reply->body).output.label_logits;
  ASSERT_EQ(logits.size(), rows.rows.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    float expected = rows.biases[i];
    for (int64_t j = 0; j < kSampleDim; ++j)
      expected += rows.values[i * kSampleDim + j] * hidden[j];
    EXPECT_NEAR(logits[i], expected, 1e-5) << i;
  }
}

// --- Steps and contexts

TEST_F(ShardCoreTest, ContextsGoWhenTheClientClosesTheStep) {
  Must(trainer_.EmbedForward(), 1);
  Must(trainer_.EmbedForward(), 2);
  Must(trainer_.HeadForward(), 2);
  EXPECT_EQ(core_->contexts().count(), 3);
  EXPECT_TRUE(
      Do(trainer_.Step(trainer_.EmbedForward(), 3, /*first_open_step=*/2)).reply->status.ok());
  EXPECT_EQ(core_->contexts().count(), 3);
  EXPECT_EQ(Reason(Do(trainer_.Step(trainer_.EmbedBackward(), 1))), reason::kStepClosed);
}

TEST_F(ShardCoreTest, ASecondForwardReplacesTheFirst) {
  Must(trainer_.EmbedForward(4), 1);
  Must(trainer_.EmbedForward(2), 1);
  EXPECT_EQ(core_->contexts().count(), 1);
  Must(trainer_.EmbedBackward(2), 1);
  EXPECT_EQ(core_->contexts().bytes(), 0);
}

TEST_F(ShardCoreTest, ClientsDoNotShareSteps) {
  SampleTrainer other(2);
  Do(other.Hello());
  Must(trainer_.EmbedForward(), 1);
  EXPECT_EQ(Reason(Do(other.Step(other.EmbedBackward(), 1))), reason::kNoContext);
}

TEST_F(ShardCoreTest, AContextLargerThanTheBudgetIsRefusedForGood) {
  ShardCoreOptions options = SampleOptions();
  options.context_bytes = 2000;
  core_ = SampleCore(trainer_, options);
  const Answer answer = Do(trainer_.Step(trainer_.EmbedForward(200), 1));
  EXPECT_EQ(Reason(answer), reason::kOverLimit);
  EXPECT_TRUE(absl::IsInvalidArgument(answer.reply->status));
}

// --- Rows

TEST_F(ShardCoreTest, AssignAddAndGatherAgree) {
  ScatterCommand assign = trainer_.Scatter(ScatterMode::kAssign);
  const Answer assigned = Do(assign);
  ASSERT_TRUE(assigned.reply->status.ok());
  EXPECT_EQ(std::get<ScatterReply>(assigned.reply->body).applied_steps, 1);
  ScatterCommand add = assign;
  add.mode = ScatterMode::kAdd;
  add.envelope = trainer_.Next();
  ASSERT_TRUE(Do(add).reply->status.ok());
  GatherCommand gather = trainer_.Gather();
  gather.rows = assign.rows.rows;
  const Answer answer = Do(gather);
  const RowBlock& rows = std::get<GatherReply>(answer.reply->body).rows;
  ASSERT_EQ(rows.rows, assign.rows.rows);
  for (size_t i = 0; i < rows.values.size(); ++i) {
    EXPECT_FLOAT_EQ(rows.values[i], 2 * assign.rows.values[i]);
  }
  for (size_t i = 0; i < rows.biases.size(); ++i) {
    EXPECT_FLOAT_EQ(rows.biases[i], 2 * assign.rows.biases[i]);
  }
}

TEST_F(ShardCoreTest, UpdatesBeyondTheBoundAreNotStored) {
  ScatterCommand big = trainer_.Scatter(ScatterMode::kAssign);
  std::fill(big.rows.values.begin(), big.rows.values.end(), 99.0f);
  ASSERT_TRUE(Do(big).reply->status.ok());
  ScatterCommand add = big;
  add.envelope = trainer_.Next();
  add.mode = ScatterMode::kAdd;
  ASSERT_TRUE(Do(add).reply->status.ok());
  GatherCommand gather = trainer_.Gather();
  gather.rows = big.rows.rows;
  const Answer answer = Do(gather);
  EXPECT_EQ(std::get<GatherReply>(answer.reply->body).rows.values, big.rows.values);
  EXPECT_EQ(core_->Counters().rejected_rows, static_cast<int64_t>(big.rows.rows.size()));
}

TEST_F(ShardCoreTest, GatherByFingerprintFindsWhatASampleSelects) {
  const HeadForwardOp head = trainer_.HeadForward(3);
  GatherCommand gather;
  gather.model = "m";
  gather.table = "head";
  gather.by_fingerprint = true;
  gather.batch = 3;
  gather.fingerprints = head.fingerprints;
  gather.max_active = 10;
  const Answer answer = Do(gather);
  ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
  const auto& reply = std::get<GatherReply>(answer.reply->body);
  ASSERT_EQ(reply.sample_offsets.size(), 4u);
  EXPECT_EQ(reply.sample_offsets.back(), reply.sample_rows.size());
  EXPECT_GT(reply.sample_rows.size(), 0u);
  EXPECT_TRUE(std::is_sorted(reply.rows.rows.begin(), reply.rows.rows.end()));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LE(reply.sample_offsets[i + 1] - reply.sample_offsets[i], 5u) << "half of the rows";
    for (uint32_t j = reply.sample_offsets[i]; j < reply.sample_offsets[i + 1]; ++j) {
      EXPECT_TRUE(
          std::binary_search(reply.rows.rows.begin(), reply.rows.rows.end(), reply.sample_rows[j]));
    }
  }
  gather.fingerprints[0] = 1 << 20;
  EXPECT_EQ(Reason(Do(gather)), reason::kBadFingerprint);
  gather.table = "input";
  EXPECT_EQ(Reason(Do(gather)), reason::kWrongRole);
}

TEST_F(ShardCoreTest, TopKIsExactOnDemand) {
  TopKCommand top{.model = "m",
                  .table = "head",
                  .batch = 2,
                  .dim = kSampleDim,
                  .hidden = trainer_.Floats(2 * kSampleDim),
                  .k = 5,
                  .hashed = false,
                  .fingerprints = {}};
  const Answer answer = Do(top);
  ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
  const auto& reply = std::get<TopKReply>(answer.reply->body);
  EXPECT_TRUE(reply.scored.exact);
  ASSERT_EQ(reply.scored.rows.size(), 10u);
  // Against the rows themselves.
  GatherCommand all = trainer_.Gather();
  all.rows = trainer_.HeldRows(trainer_.map(), kSampleLabels, kSampleLabels);
  const Answer gathered = Do(all);
  const RowBlock& rows = std::get<GatherReply>(gathered.reply->body).rows;
  float best = -INFINITY;
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    float logit = rows.biases[i];
    for (int64_t j = 0; j < kSampleDim; ++j)
      logit += rows.values[i * kSampleDim + j] * top.hidden[j];
    best = std::max(best, logit);
  }
  EXPECT_NEAR(reply.scored.logits[0], best, 1e-5);
  top.dim = 4;
  EXPECT_EQ(Reason(Do(top)), reason::kWrongDim);
}

TEST_F(ShardCoreTest, ReadsAnswerAsStepsDoAndLeaveNothingBehind) {
  const EmbedForwardOp embed = trainer_.EmbedForward();
  const auto partial = [](const Answer& answer) {
    EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    return std::get<EmbedForwardReply>(answer.reply->body).partial.data;
  };
  const int64_t mutations = core_->mutations();
  const auto read = partial(Do(ReadCommand{.model = "m", .topology_version = 1, .op = embed}));
  EXPECT_EQ(core_->mutations(), mutations);
  EXPECT_EQ(core_->contexts().bytes(), 0);
  EXPECT_EQ(read, partial(Must(embed, 1)));
  const Answer rows = Do(ReadCommand{.model = "m", .op = DenseGatherOp{.table = "hidden"}});
  EXPECT_GT(std::get<DenseGatherReply>(rows.reply->body).rows.rows.size(), 0u);
  EXPECT_EQ(Reason(Do(ReadCommand{.model = "other", .op = embed})), reason::kUnknownModel);
  EXPECT_EQ(Reason(Do(ReadCommand{.model = "m", .topology_version = 2, .op = embed})),
            reason::kStaleTopology);
}

// --- Models

TEST_F(ShardCoreTest, CreatingAnEqualModelAgainChangesNothing) {
  Must(trainer_.DenseScatter(), 1);
  const uint64_t digest = core_->Digest();
  const Answer again = Do(SampleCreate());
  EXPECT_FALSE(std::get<CreateModelReply>(again.reply->body).created);
  EXPECT_EQ(core_->Digest(), digest);
  ModelSpec other_seed = SampleSpec();
  other_seed.seed = 6;
  EXPECT_EQ(Reason(Do(SampleCreate(other_seed))), reason::kModelDiffers);
  EXPECT_EQ(Reason(Do(SampleCreate(SampleSpec(), 0, {1.0, 3.0}))), reason::kModelDiffers);
  EXPECT_EQ(Reason(Do(SampleCreate(SampleSpec(), 1))), reason::kWrongShard);
  ModelSpec other_training = SampleSpec();
  other_training.training.max_epochs = 77;
  EXPECT_TRUE(Do(SampleCreate(other_training)).reply->status.ok());
}

TEST_F(ShardCoreTest, ADroppedModelIsUnknown) {
  Must(trainer_.HeadForward(), 1);
  EXPECT_TRUE(Do(DropModelCommand{.model = "m"}).reply->status.ok());
  EXPECT_EQ(core_->contexts().count(), 0);
  EXPECT_EQ(core_->memory_bytes(), 0);
  for (const Answer& answer :
       {Do(trainer_.Scatter(ScatterMode::kAdd)), Do(trainer_.Gather()),
        Do(DescribeModelCommand{.model = "m"}), Do(DropModelCommand{.model = "m"})}) {
    EXPECT_TRUE(absl::IsNotFound(answer.reply->status));
    EXPECT_EQ(Reason(answer), reason::kUnknownModel);
  }
}

TEST_F(ShardCoreTest, ModelsBeyondTheMemoryAreRefusedBeforeItIsTaken) {
  ModelSpec huge = SampleSpec();
  huge.name = "huge";
  huge.tables[2].rows = kMaxTableRows;
  huge.tables[0].rows = kMaxTableRows;
  ShardCoreOptions options = SampleOptions();
  options.memory_bytes = 10 << 20;
  core_ = SampleCore(trainer_, options);
  const Answer answer = Do(SampleCreate(huge));
  EXPECT_EQ(Reason(answer), reason::kOutOfMemory);
  EXPECT_EQ(core_->models().size(), 1u);
}

TEST_F(ShardCoreTest, WhatScansKeepGivesWayToModels) {
  const TopKCommand query{.model = "m",
                          .table = "head",
                          .batch = 1,
                          .dim = kSampleDim,
                          .hidden = trainer_.Floats(kSampleDim),
                          .k = 1,
                          .hashed = false,
                          .fingerprints = {}};
  ModelSpec more = SampleSpec();
  more.name = "more";
  ASSERT_TRUE(Do(SampleCreate(more)).reply->status.ok());
  const int64_t both = core_->memory_bytes();
  ASSERT_TRUE(Do(DropModelCommand{.model = "more"}).reply->status.ok());
  CoreLimits limits = core_->limits();
  limits.memory_bytes = both;
  core_->SetLimits(limits);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Do(query).reply->status.ok());
  EXPECT_GT(core_->FindModel("m")->kept_bytes(), 0);
  EXPECT_TRUE(Do(SampleCreate(more)).reply->status.ok());
  EXPECT_EQ(core_->FindModel("m")->kept_bytes(), 0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Do(query).reply->status.ok());
  EXPECT_EQ(core_->FindModel("m")->kept_bytes(), 0) << "no room is left";
}

TEST_F(ShardCoreTest, DenseTablesThatDoNotFitIntoAMessageAreRefused) {
  ModelSpec wide = SampleSpec();
  wide.name = "wide";
  wide.tables[0].dim = 2048;
  wide.tables[1].dim = 2048;
  wide.tables[1].rows = 2048;
  wide.tables[2].dim = 2048;
  const Answer answer = Do(SampleCreate(wide));
  EXPECT_EQ(Reason(answer), reason::kBadModel);
  EXPECT_THAT(std::string(answer.reply->status.message()), HasSubstr("hidden"));
}

}  // namespace
}  // namespace dslide::shard
