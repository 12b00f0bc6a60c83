// Averages of rows, and weights of labels, through the shard's state machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/protocol/reason_words.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/core_state.h"
#include "services/shard/storage/storage_metadata.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

constexpr int64_t kAveragedBatch = 4;

ModelSpec AveragedSpec(bool averaged, RowPrecision precision) {
  ModelSpec spec = SampleSpec();
  for (TableSpec& table : spec.tables) {
    table.optimizer.average_decay = averaged ? 0.9 : 0.0;
    table.optimizer.learning_rate = 0.05;
    table.precision = precision;
  }
  return spec;
}

class ShardAveragesTest : public ::testing::TestWithParam<RowPrecision> {
 protected:
  ShardAveragesTest() { Start(/*averaged=*/true, /*threads=*/1); }

  // A shard that has trained for a while; equal for equal settings.
  void Start(bool averaged, int threads) {
    trainer_ = std::make_unique<SampleTrainer>();
    core_ = std::make_unique<ShardCore>(SampleOptions(threads));
    Must(SetOwnershipCommand{.shard = ShardId(0), .generation = 7});
    Must(SampleCreate(AveragedSpec(averaged, GetParam())));
    Must(trainer_->Hello());
    Train(1, 30);
  }
  void Train(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      Must(trainer_->Step(trainer_->EmbedForward(), step, step));
      Must(trainer_->Step(trainer_->HeadForward(), step, step));
      Must(trainer_->Step(trainer_->HeadBackward(), step, step));
      Must(trainer_->Step(trainer_->EmbedBackward(), step, step));
      Must(trainer_->Step(trainer_->DenseScatter(), step, step));
    }
  }
  Answer Must(Command command) {
    Answer answer = core_->Apply(std::move(command));
    EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    return answer;
  }
  RowBlock Rows(const std::string& table, bool averaged) {
    GatherCommand all;
    all.model = "m";
    all.table = table;
    all.rows = trainer_->HeldRows(trainer_->map(),
                                  table == "head" ? kSampleLabels : kSampleFeatures, kSampleLabels);
    all.averaged = averaged;
    return std::get<GatherReply>(Must(all).reply->body).rows;
  }
  RowBlock DenseRows(bool averaged, int64_t step) {
    const DenseGatherOp op{.table = "hidden", .averaged = averaged};
    return std::get<DenseGatherReply>(Must(trainer_->Step(op, step, step)).reply->body).rows;
  }
  std::vector<float> Sums(EmbedForwardOp op, bool averaged, int64_t step) {
    op.averaged = averaged;
    return std::get<EmbedForwardReply>(Must(trainer_->Step(op, step, step)).reply->body)
        .partial.data;
  }

  std::unique_ptr<SampleTrainer> trainer_;
  std::unique_ptr<ShardCore> core_;
};

// The sums of a batch from the rows that a gather answers.
std::vector<float> SumsOf(const EmbedForwardOp& op, const RowBlock& rows) {
  std::map<RowId, size_t> place;
  for (size_t i = 0; i < rows.rows.size(); ++i) place[rows.rows[i]] = i;
  std::vector<float> sums((op.offsets.size() - 1) * kSampleDim, 0.0f);
  for (size_t sample = 0; sample + 1 < op.offsets.size(); ++sample) {
    for (uint32_t i = op.offsets[sample]; i < op.offsets[sample + 1]; ++i) {
      for (int64_t j = 0; j < kSampleDim; ++j) {
        sums[sample * kSampleDim + j] +=
            op.values[i] * rows.values[place.at(op.rows[i]) * kSampleDim + j];
      }
    }
  }
  return sums;
}

TEST_P(ShardAveragesTest, ReadersGetThemWhenTheyAsk) {
  const EmbedForwardOp op = trainer_->EmbedForward();
  for (const bool averaged : {false, true}) {
    const RowBlock rows = Rows("input", averaged);
    const std::vector<float> expected = SumsOf(op, rows);
    const std::vector<float> sums = Sums(op, averaged, averaged ? 41 : 40);
    ASSERT_EQ(sums.size(), expected.size());
    // Five terms below 4, in another order.
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], expected[i], 1e-5);
  }
  EXPECT_NE(Rows("input", false).values, Rows("input", true).values);
  EXPECT_NE(Rows("head", false).biases, Rows("head", true).biases);
  EXPECT_NE(DenseRows(false, 42).values, DenseRows(true, 42).values);
}

TEST_P(ShardAveragesTest, TopKScoresThem) {
  const RowBlock rows = Rows("head", /*averaged=*/true);
  TopKCommand query;
  query.model = "m";
  query.table = "head";
  query.batch = 1;
  query.dim = kSampleDim;
  query.k = static_cast<int64_t>(rows.rows.size());
  query.hidden = trainer_->Floats(kSampleDim);
  std::map<RowId, float> logits;
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    logits[rows.rows[i]] = rows.biases[i];
    for (int64_t j = 0; j < kSampleDim; ++j) {
      logits[rows.rows[i]] += rows.values[i * kSampleDim + j] * query.hidden[j];
    }
  }
  for (const bool given : {false, true}) {
    if (given) {
      query.candidates = {.offsets = {0, static_cast<uint32_t>(rows.rows.size())},
                          .rows = rows.rows};
    }
    const Answer answer = Must(query);
    const ScoredRows& scored = std::get<TopKReply>(answer.reply->body).scored;
    ASSERT_EQ(scored.rows.size(), rows.rows.size());
    for (size_t i = 0; i < scored.rows.size(); ++i) {
      EXPECT_NEAR(scored.logits[i], logits.at(scored.rows[i]), 1e-5) << given;
    }
  }
}

TEST_P(ShardAveragesTest, WithoutThemAllReadersGetTheRows) {
  Start(/*averaged=*/false, 1);
  EXPECT_EQ(Rows("input", false).values, Rows("input", true).values);
  EXPECT_EQ(DenseRows(false, 42).values, DenseRows(true, 42).values);
  const std::vector<float> plain = Rows("head", false).values;
  Start(/*averaged=*/true, 1);
  EXPECT_EQ(Rows("head", false).values, plain) << "training does not see them";
}

TEST_P(ShardAveragesTest, ThreadsAndReplaysGiveEqualBits) {
  const uint64_t digest = core_->Digest();
  const std::vector<float> means = Rows("head", true).values;
  for (const int threads : {1, 3}) {
    Start(/*averaged=*/true, threads);
    EXPECT_EQ(core_->Digest(), digest);
    EXPECT_EQ(Rows("head", true).values, means);
  }
}

TEST_P(ShardAveragesTest, ImagesBringThemBack) {
  const std::string image =
      absl::StrCat(::testing::TempDir(), "/averages-", getpid(), "-", PrecisionName(GetParam()));
  ASSERT_TRUE(WriteImage(image, 5, *core_).ok());
  const uint64_t digest = core_->Digest();
  const std::vector<float> means = Rows("head", true).values;
  auto loaded = std::make_unique<ShardCore>(SampleOptions());
  const absl::Status status = LoadImage(image, *loaded).status();
  ASSERT_TRUE(status.ok()) << status;
  std::filesystem::remove_all(image);
  EXPECT_EQ(loaded->Digest(), digest);
  std::swap(core_, loaded);
  EXPECT_EQ(Rows("head", true).values, means);
  // What comes after is the same as without the restart.
  Train(31, 40);
  const uint64_t restarted = core_->Digest();
  Start(/*averaged=*/true, 1);
  Train(31, 40);
  EXPECT_EQ(core_->Digest(), restarted);
}

TEST_P(ShardAveragesTest, TheirMetadataComesBack) {
  CheckpointMetadata metadata = DescribeForCheckpoint(*core_->FindModel("m"));
  for (const int64_t increment : {0, 3}) {
    metadata.increment = increment;
    const std::string bytes = EncodeMetadata(metadata);
    const auto decoded = DecodeMetadata(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->spec, metadata.spec);
    EXPECT_EQ(EncodeMetadata(*decoded), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ShardAveragesTest,
                         ::testing::Values(RowPrecision::kF32, RowPrecision::kBf16Weights,
                                           RowPrecision::kBf16));

class ShardLabelWeightsTest : public ::testing::Test {
 protected:
  ShardLabelWeightsTest() { Start(SampleSpec()); }

  void Start(const ModelSpec& spec) {
    trainer_ = std::make_unique<SampleTrainer>();
    core_ = std::make_unique<ShardCore>(SampleOptions());
    Must(SetOwnershipCommand{.shard = ShardId(0), .generation = 7});
    Must(SampleCreate(spec));
    Must(trainer_->Hello());
  }
  Answer Must(Command command) {
    Answer answer = core_->Apply(std::move(command));
    EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    return answer;
  }
  // The rest of the labels has the weight 1.
  HeadForwardOp Weighing(std::vector<float> weights) {
    HeadForwardOp op = trainer_->HeadForward(kAveragedBatch);
    op.label_weights = std::move(weights);
    op.label_weights.resize(op.labels.size(), 1.0f);
    return op;
  }
  void Run(HeadForwardOp op) {
    Must(trainer_->Step(std::move(op), 1));
    Must(trainer_->Step(trainer_->HeadBackward(kAveragedBatch), 1));
  }

  std::unique_ptr<SampleTrainer> trainer_;
  std::unique_ptr<ShardCore> core_;
};

TEST_F(ShardLabelWeightsTest, WeightsOfOneChangeNothing) {
  Run(trainer_->HeadForward(kAveragedBatch));
  const uint64_t digest = core_->Digest();
  Start(SampleSpec());
  Run(Weighing({}));
  EXPECT_EQ(core_->Digest(), digest);
}

// With plain SGD a row moves by the rate times its gradient, which is linear in the weight of the
// label: the difference between two weights is the target's part, hidden * target.
TEST_F(ShardLabelWeightsTest, ALabelPullsByItsWeight) {
  const auto biases = [&](float weight) {
    ModelSpec spec = SampleSpec();
    spec.tables[2].optimizer.kind = OptimizerKind::kSgd;
    spec.tables[2].optimizer.learning_rate = 0.5;
    Start(spec);
    // All labels but the last have the weight 2.
    HeadForwardOp op = Weighing(std::vector<float>(2 * kAveragedBatch - 1, 2.0f));
    op.label_weights.back() = weight;
    const RowId label = op.labels.back();
    Run(std::move(op));
    GatherCommand gather = trainer_->Gather();
    gather.rows = {label};
    return std::get<GatherReply>(Must(gather).reply->body).rows.biases[0];
  };
  // Rate times scale times target of the sample.
  const float expected = 0.5f * (1.0f / kAveragedBatch) * 0.5f;
  const float none = biases(0.0f);
  EXPECT_NEAR(biases(1.0f) - none, expected, 1e-6);
  EXPECT_NEAR(biases(3.0f) - none, 3 * expected, 1e-6);
}

TEST_F(ShardLabelWeightsTest, OpenStepsComeBackWithThem) {
  Must(trainer_->Step(Weighing({0.25f, 4.0f}), 1));
  const std::string state = EncodeCoreState(*core_);
  const auto restored = std::make_unique<ShardCore>(SampleOptions());
  ASSERT_TRUE(RestoreCoreState(state, *restored).ok());
  EXPECT_EQ(EncodeCoreState(*restored), state);
  EXPECT_EQ(restored->contexts().bytes(), core_->contexts().bytes());
}

TEST_F(ShardLabelWeightsTest, AnotherNumberOfThemIsRefused) {
  HeadForwardOp op = Weighing({});
  op.label_weights.pop_back();
  EXPECT_EQ(Reason(core_->Apply(trainer_->Step(std::move(op), 1))), reason::kBadSize);
}

}  // namespace
}  // namespace dslide::shard
