// Tables that get more rows while their model is trained.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "core/protocol/reason_words.h"
#include "core/spec/model_growth.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMoreLabels = 333;
constexpr int64_t kMoreFeatures = 131;

ModelSpec GrownSpec() {
  return *GrowTable(*GrowTable(SampleSpec(), "head", kMoreLabels), "input", kMoreFeatures);
}

CreateModelCommand Growth(bool dry_run = false) {
  CreateModelCommand command = SampleCreate(GrownSpec());
  command.grow = true;
  command.dry_run = dry_run;
  return command;
}

class ShardGrowthTest : public ShardCoreTest {
 protected:
  void Train(ShardCore& core, SampleTrainer& trainer, int64_t first, int64_t end) {
    for (int64_t step = first; step < end; ++step) {
      for (StepOp op : {StepOp(trainer.EmbedForward()), StepOp(trainer.HeadForward()),
                        StepOp(trainer.HeadBackward()), StepOp(trainer.EmbedBackward())}) {
        const Answer answer = core.Apply(trainer.Step(std::move(op), step, step));
        EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
      }
    }
  }
  static absl::Status StatusOf(const Answer& answer) { return answer.reply->status; }
};

TEST_F(ShardGrowthTest, AnUntrainedTableIsWhatItWouldHaveBeenFromTheStart) {
  for (const int64_t shards : {1, 3}) {
    const std::vector<double> weights(static_cast<size_t>(shards), 1.0);
    uint64_t grown_digest = 0;
    uint64_t new_digest = 0;
    for (int32_t shard = 0; shard < shards; ++shard) {
      ModelSpec from_the_start = SampleSpec();
      from_the_start.tables[0].rows = kMoreFeatures;
      from_the_start.tables[2].rows = kMoreLabels;
      ShardCore made(SampleOptions());
      ASSERT_TRUE(StatusOf(made.Apply(SampleCreate(from_the_start, shard, weights))).ok());
      ShardCore grown(SampleOptions());
      ASSERT_TRUE(StatusOf(grown.Apply(SampleCreate(SampleSpec(), shard, weights))).ok());
      CreateModelCommand growth = SampleCreate(GrownSpec(), shard, weights);
      growth.grow = true;
      ASSERT_TRUE(StatusOf(grown.Apply(growth)).ok());
      EXPECT_EQ(grown.Digest(), made.Digest());
      EXPECT_EQ(grown.memory_bytes(), made.memory_bytes());
      grown_digest += grown.models().at("m")->tables()[2].stored().Digest(Parallelism{});
      new_digest += made.models().at("m")->tables()[2].stored().Digest(Parallelism{});
    }
    EXPECT_EQ(grown_digest, new_digest);
  }
}

TEST_F(ShardGrowthTest, StepsThatAreOpenGoOnAsIfNothingHadHappened) {
  SampleTrainer other;
  const std::unique_ptr<ShardCore> undisturbed = SampleCore(other);
  Train(*core_, trainer_, 1, 8);
  Train(*undisturbed, other, 1, 8);
  const auto open = [](ShardCore& core, SampleTrainer& trainer) {
    EXPECT_TRUE(StatusOf(core.Apply(trainer.Step(trainer.EmbedForward(), 8))).ok());
    EXPECT_TRUE(StatusOf(core.Apply(trainer.Step(trainer.HeadForward(), 8))).ok());
  };
  const auto close = [](ShardCore& core, SampleTrainer& trainer) {
    EXPECT_TRUE(StatusOf(core.Apply(trainer.Step(trainer.HeadBackward(), 8))).ok());
    EXPECT_TRUE(StatusOf(core.Apply(trainer.Step(trainer.EmbedBackward(), 8))).ok());
  };
  open(*core_, trainer_);
  open(*undisturbed, other);
  ASSERT_TRUE(StatusOf(Do(Growth())).ok());
  close(*core_, trainer_);
  close(*undisturbed, other);
  ASSERT_TRUE(StatusOf(undisturbed->Apply(Growth())).ok());
  EXPECT_EQ(core_->Digest(), undisturbed->Digest());
  EXPECT_EQ(core_->contexts().count(), 0);
}

TEST_F(ShardGrowthTest, ReplayGivesTheSameBitsForAnyNumberOfThreads) {
  SampleTrainer other;
  const std::unique_ptr<ShardCore> replayed = SampleCore(other, SampleOptions(/*threads=*/3));
  for (const auto& [core, trainer] :
       {std::pair(core_.get(), &trainer_), std::pair(replayed.get(), &other)}) {
    Train(*core, *trainer, 1, 10);
    ASSERT_TRUE(StatusOf(core->Apply(Growth())).ok());
    Train(*core, *trainer, 10, 30);
  }
  EXPECT_EQ(core_->Digest(), replayed->Digest());
}

TEST_F(ShardGrowthTest, GrowingAgainChangesNothingAndSmallerSpecsAreTheSameModel) {
  Train(*core_, trainer_, 1, 4);
  ASSERT_TRUE(StatusOf(Do(Growth())).ok());
  const uint64_t digest = core_->Digest();
  const auto* const model = core_->FindModel("m");
  ASSERT_TRUE(StatusOf(Do(Growth())).ok());
  ASSERT_TRUE(StatusOf(Do(SampleCreate())).ok());
  EXPECT_EQ(core_->Digest(), digest);
  EXPECT_EQ(core_->FindModel("m"), model);
  EXPECT_EQ(model->spec(), GrownSpec());
}

TEST_F(ShardGrowthTest, RowsAreThereOnlyAfterGrowth) {
  GatherCommand gather;
  gather.model = "m";
  gather.table = "head";
  const auto map = *SlotMap::Deal(16, {1.0, 1.0});
  for (uint32_t row = kSampleLabels; gather.rows.empty(); ++row) {
    if (map.OwnerOf(RowId(row)) == ShardId(0)) gather.rows = {RowId(row)};
  }
  const Answer early = Do(gather);
  EXPECT_EQ(Reason(early), reason::kForeignRow);
  EXPECT_THAT(std::string(StatusOf(early).message()),
              HasSubstr("dslide model grow m --table head"));
  ASSERT_TRUE(StatusOf(Do(Growth())).ok());
  EXPECT_TRUE(StatusOf(Do(gather)).ok());
}

TEST_F(ShardGrowthTest, ADryRunAndARefusalLeaveEverything) {
  const uint64_t digest = core_->Digest();
  const ShardCore::Counts counts = core_->counts();
  EXPECT_FALSE(MayChangeState(Growth(/*dry_run=*/true)));
  EXPECT_TRUE(StatusOf(Do(Growth(/*dry_run=*/true))).ok());
  EXPECT_EQ(core_->counts().changes, counts.changes);
  EXPECT_EQ(core_->FindModel("m")->spec(), SampleSpec());

  CreateModelCommand not_asked = Growth();
  not_asked.grow = false;
  EXPECT_EQ(Reason(Do(not_asked)), reason::kModelDiffers);
  CoreLimits limits = core_->limits();
  limits.memory_bytes = core_->memory_bytes() + 1000;
  core_->SetLimits(limits);
  for (const bool dry_run : {true, false}) {
    const Answer refused = Do(Growth(dry_run));
    EXPECT_EQ(Reason(refused), reason::kOutOfMemory);
    EXPECT_THAT(std::string(StatusOf(refused).message()), HasSubstr("1000 are left"));
  }
  EXPECT_EQ(core_->Digest(), digest);
  EXPECT_TRUE(absl::IsNotFound(StatusOf([&] {
    CreateModelCommand unknown = Growth(/*dry_run=*/true);
    unknown.spec.name = "other";
    return Do(unknown);
  }())));
}

TEST_F(ShardGrowthTest, WhatASnapshotHoldsStaysAsItWas) {
  Train(*core_, trainer_, 1, 4);
  const std::shared_ptr<ShardModel> before = core_->models().at("m");
  const uint64_t digest = before->tables()[2].stored().Digest(Parallelism{});
  ASSERT_TRUE(StatusOf(Do(Growth())).ok());
  Train(*core_, trainer_, 4, 8);
  EXPECT_EQ(before->tables()[2].stored().Digest(Parallelism{}), digest);
  EXPECT_EQ(before->spec(), SampleSpec());
  // The dense table did not grow: it is the same one.
  EXPECT_EQ(&before->tables()[1].stored(), &core_->models().at("m")->tables()[1].stored());
}

}  // namespace
}  // namespace dslide::shard
