// Cluster checkpoints as the coordinator takes them, and the way back.

#include "services/coordinator/control/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/coordinator/coordinator_fixture.h"

namespace dslide::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using CoordinatorCheckpointTest = CoordinatorFixture;

TEST_F(CoordinatorCheckpointTest, ClusterCheckpointsNeedADataDirectory) {
  RegisterBoth();
  EXPECT_EQ(ReasonOf(coordinator_->checkpoints().Take(progress_).status()), reason::kNoDataDir);
  EXPECT_EQ(ReasonOf(coordinator_->checkpoints().List().status()), reason::kNoDataDir);
  EXPECT_EQ(ReasonOf(coordinator_->checkpoints().Restore(0, progress_).status()),
            reason::kNoDataDir);
}

TEST_F(CoordinatorCheckpointTest, ARestoreBringsBackModelsAndJobs) {
  Restart(/*with_store=*/true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  const JobSpec spec = Spec();
  const ClientId client = {1};
  ASSERT_TRUE(coordinator_->RegisterJob(spec, client).ok());
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_checkpoint_id 1\n"));

  const auto work = coordinator_->jobs().Acquire({.job = spec.job, .client = client});
  const auto& chunk = std::get<ChunkWork>(*work);
  ASSERT_TRUE(coordinator_->jobs()
                  .Acquire({.job = spec.job,
                            .client = client,
                            .finished = {{.lease = chunk.lease, .samples = chunk.count}}})
                  .ok());
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("later"), kTimeout).ok());
  const auto restored = coordinator_->checkpoints().Restore(0, progress_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  ASSERT_EQ(coordinator_->registry().ListModels().size(), 1u);
  EXPECT_EQ(coordinator_->registry().ListModels()[0].name, "m");
  ASSERT_EQ(coordinator_->Status().jobs.size(), 1u);
  EXPECT_EQ(coordinator_->Status().jobs[0].samples_done, 0);
  EXPECT_EQ(coordinator_->registry().Map()->restore_count, 1u);
  // Also what a coordinator has lost comes back.
  coordinator_.reset();
  std::filesystem::remove_all(data_dir_ + "/jobs");
  Restart(/*with_store=*/true);
  RegisterBoth();
  EXPECT_EQ(coordinator_->registry().Map()->restore_count, 1u);
  EXPECT_TRUE(coordinator_->Status().jobs.empty());
  ASSERT_TRUE(coordinator_->checkpoints().Restore(1, progress_).ok());
  EXPECT_EQ(coordinator_->Status().jobs.size(), 1u);
}

TEST_F(CoordinatorCheckpointTest, CountsWhatWasWrittenByKind) {
  StartWithModel();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  const std::string page = metrics_.Expose();
  for (const char* line :
       {"dslide_coordinator_checkpoints_committed_total{kind=\"full\"} 1\n",
        "dslide_coordinator_checkpoints_committed_total{kind=\"incremental\"} 2\n",
        "dslide_coordinator_checkpoint_written_bytes_total{kind=\"full\"} 2000\n",
        "dslide_coordinator_checkpoint_written_bytes_total{kind=\"incremental\"} 200\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

// Once a day every committed checkpoint is read, whoever needs it.
TEST_F(CoordinatorCheckpointTest, DamageIsFoundBeforeSomebodyNeedsTheCheckpoint) {
  Restart(/*with_store=*/true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  shards_.With("b:1", [](auto& shard) { shard.cuts[2].files_checksum = 99; });
  const auto await = [&](const std::string& line) {
    EXPECT_TRUE(Eventually([&] { return absl::StrContains(metrics_.Expose(), line); }))
        << line << metrics_.Expose();
  };
  await("dslide_coordinator_checkpoints_damaged 0\n");
  EXPECT_EQ(coordinator_->checkpoints().NewestWhole()->checkpoint_id, 2u);
  // Heartbeats are missing meanwhile, which is no matter: shards are asked all the same.
  clock_.Advance(absl::Hours(25));
  await("dslide_coordinator_checkpoints_damaged 1\n");
  await("dslide_coordinator_checkpoint_scrub_age_seconds 0\n");
  EXPECT_EQ(coordinator_->checkpoints().NewestWhole()->checkpoint_id, 1u);
  EXPECT_THAT(coordinator_->checkpoints().List()->front().damage, HasSubstr("shard 1"));
  // A shard that does not answer says nothing about its files.
  shards_.With("b:1", [](auto& shard) { shard.failure = absl::UnavailableError("away"); });
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->checkpoints().Verify(1, progress_).status()));
  EXPECT_EQ(coordinator_->checkpoints().NewestWhole()->checkpoint_id, 1u);
  // Mended, and found so.
  shards_.With("b:1", [](auto& shard) {
    shard.failure = absl::OkStatus();
    shard.cuts[2].files_checksum = 2;
  });
  EXPECT_TRUE(coordinator_->checkpoints().Verify(2, progress_).ok());
  EXPECT_EQ(coordinator_->checkpoints().NewestWhole()->checkpoint_id, 2u);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_checkpoints_damaged 0\n"));
}

// Its disk is lost, too: nobody makes fresh rows in the place of old ones.
TEST_F(CoordinatorCheckpointTest, AShardWithoutItsPartOfACheckpointWaitsForAPerson) {
  StartWithModel();
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  shards_.With("b:1", [](auto& shard) {
    shard.models.clear();
    shard.cuts.clear();
  });
  ASSERT_TRUE(coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {}).ok());
  // A checkpoint now would have nothing of that shard, and be the newest one.
  EXPECT_FALSE(coordinator_->checkpoints().Take(progress_).ok());
  absl::SleepFor(absl::Milliseconds(500));  // as long as two tries take
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->checkpoints().Take(progress_).status()));
  EXPECT_EQ(coordinator_->checkpoints().List()->size(), 1u);
  EXPECT_EQ(ModelsOn("b:1"), 0u);
  shards_.With("a:1", [](auto& shard) { EXPECT_TRUE(shard.rolled_back.empty()); });
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_models_recreated_total 0\n"));
}

// A crash has taken a shard's rows: the whole cluster goes back, and nothing begins afresh.
TEST_F(CoordinatorCheckpointTest, AShardThatComesBackWithoutItsRowsTakesTheClusterBack) {
  StartWithModel();
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  ASSERT_TRUE(coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {}).ok());
  AwaitRollback("a:1");
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_models_recreated_total 0\n"));
}

TEST_F(CoordinatorCheckpointTest, WithoutACheckpointNobodyWaitsForOne) {
  StartWithModel();
  shards_.With("b:1", [](auto& shard) { shard.models.clear(); });
  const auto owner = coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {});
  ASSERT_TRUE(owner.ok()) << owner.status();
  Await([&] {
    return !coordinator_->registry()
                .Heartbeat(ShardId(1), owner->generation, 0, 0)
                ->rollback_pending;
  });
  EXPECT_TRUE(shards_.AwaitModel("b:1", "m"));
}

// Its part would be without the model, and a way back to it would take the model away.
TEST_F(CoordinatorCheckpointTest, NoCheckpointIsTakenBeforeAShardHasItsModelsAgain) {
  StartWithModel();
  shards_.With("b:1", [](auto& shard) {
    shard.models.clear();
    shard.create_failure = absl::UnavailableError("not now");
  });
  const auto owner = coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {});
  ASSERT_TRUE(owner.ok()) << owner.status();
  Await([&] {
    return !coordinator_->registry()
                .Heartbeat(ShardId(1), owner->generation, 0, 0)
                ->rollback_pending;
  });
  const absl::Status refused = coordinator_->checkpoints().Take(progress_).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("shard 1 came back and does not have all models"));
  shards_.With("b:1", [](auto& shard) { shard.create_failure = absl::OkStatus(); });
  Await([&] { return coordinator_->checkpoints().Take(progress_).ok(); });
  EXPECT_EQ(ModelsOn("b:1"), 1u);
}

// Who asks for a map sees no cluster of which one half has gone back.
TEST_F(CoordinatorCheckpointTest, ARestoreThatFailsHalfWayIsFinishedBeforeAnybodyIsServed) {
  StartWithModel();
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  shards_.With("b:1",
               [](auto& shard) { shard.rollback_failure = absl::UnavailableError("it died"); });
  EXPECT_FALSE(coordinator_->checkpoints().Restore(1, progress_).ok());
  shards_.With("a:1", [](auto& shard) { EXPECT_THAT(shard.rolled_back, ElementsAre(1)); });
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->registry().Map().status()));
  EXPECT_TRUE(coordinator_->checkpoints().Verify(2, progress_).ok()) << "a person may look";
  // The next coordinator knows of it, and goes on with the same checkpoint.
  coordinator_.reset();
  shards_.With("b:1", [](auto& shard) { shard.rollback_failure = absl::OkStatus(); });
  Restart(/*with_store=*/true);
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->registry().Map().status()));
  RegisterBoth();
  Await([&] { return coordinator_->registry().Map().ok(); });
  for (const char* address : {"a:1", "b:1"}) {
    shards_.With(address, [](auto& shard) { EXPECT_EQ(shard.rolled_back.back(), 1u); });
  }
}

// A shard has lost its rows, and the coordinator dies before it has done anything about it.
TEST_F(CoordinatorCheckpointTest, AWishToGoBackOutlivesTheCoordinator) {
  StartWithModel();
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  FailWith("a:1", absl::UnavailableError("not now"));
  FailWith("b:1", absl::UnavailableError("not now"));
  const ShardRegistration anew = Registration(3, "b:1", 1, 3.0);
  const auto owner = coordinator_->registry().Register(anew, {});
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_TRUE(owner->rollback_pending);
  EXPECT_TRUE(
      coordinator_->registry().Heartbeat(ShardId(1), owner->generation, 0, 0)->rollback_pending);
  coordinator_.reset();
  FailWith("a:1", absl::OkStatus());
  FailWith("b:1", absl::OkStatus());
  Restart(/*with_store=*/true);
  // The same process once more: for this coordinator it is no news.
  ASSERT_TRUE(
      coordinator_->registry().Register(Registration(1, "a:1", 0, 1.0), {TestModel("m")}).ok());
  ASSERT_TRUE(coordinator_->registry().Register(anew, {}).ok());
  AwaitRollback("a:1");
  AwaitRollback("b:1");
  Await([&] {
    return !coordinator_->registry()
                .Heartbeat(ShardId(1), owner->generation, 0, 0)
                ->rollback_pending;
  });
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_models_recreated_total 0\n"));
}

// A shard came back empty, and the coordinator died before it had made the models there.
TEST_F(CoordinatorCheckpointTest, ModelsThatAShardLacksAreMadeByTheNextCoordinatorToo) {
  StartWithModel();
  shards_.With("b:1", [](auto& shard) { shard.models.clear(); });
  FailWith("b:1", absl::UnavailableError("not now"));
  const auto owner = coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {});
  ASSERT_TRUE(owner.ok()) << owner.status();
  coordinator_.reset();
  FailWith("b:1", absl::OkStatus());
  Restart(/*with_store=*/true);
  // It does not register again: it is known, and only beats.
  ASSERT_TRUE(coordinator_->registry().Heartbeat(ShardId(1), owner->generation, 0, 0).ok());
  ASSERT_TRUE(
      coordinator_->registry().Register(Registration(1, "a:1", 0, 1.0), {TestModel("m")}).ok());
  EXPECT_TRUE(shards_.AwaitModel("b:1", "m"));
}

}  // namespace
}  // namespace dslide::coordinator
