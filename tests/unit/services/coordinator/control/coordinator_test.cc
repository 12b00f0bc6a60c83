#include "services/coordinator/control/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "services/coordinator/rpc/status_page.h"
#include "tests/unit/services/coordinator/coordinator_fixture.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

using CoordinatorTest = CoordinatorFixture;

TEST_F(CoordinatorTest, AModelIsCreatedOnEveryShardWithItsSlots) {
  RegisterBoth();
  const auto created = coordinator_->RegisterModel(TestModel("m"), kTimeout);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(*created);
  const auto command = shards_.With("b:1", [](auto& shard) { return shard.models.at("m"); });
  EXPECT_EQ(command.shard, ShardId(1));
  EXPECT_EQ(command.topology_version, 1u);
  ASSERT_EQ(command.slot_maps.size(), 2u);  // 16 and 32 slots
  EXPECT_EQ(command.slot_maps[0], *SlotMap::Deal(16, {1.0, 3.0}));
  EXPECT_EQ(command.slot_maps[1], *SlotMap::Deal(32, {1.0, 3.0}));
  EXPECT_FALSE(*coordinator_->RegisterModel(TestModel("m"), kTimeout));
  EXPECT_EQ(coordinator_->registry().ListModels().size(), 1u);
}

TEST_F(CoordinatorTest, AModelNeedsAllShards) {
  ASSERT_TRUE(coordinator_->registry().Register(Registration(1, "a:1"), {}).ok());
  const auto early = coordinator_->RegisterModel(TestModel("m"), kTimeout);
  EXPECT_EQ(ReasonOf(early.status()), "NOT_ALL_SHARDS");
  EXPECT_EQ(ModelsOn("a:1"), 0u);
}

TEST_F(CoordinatorTest, AShardThatFailsIsNamedAndNothingStays) {
  RegisterBoth();
  FailWith("b:1", absl::UnavailableError("connection refused"));
  const auto failed = coordinator_->RegisterModel(TestModel("m"), kTimeout);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(failed.status().message()),
      HasSubstr("creating model \"m\" failed on 1 of 2 shards: shard 1 at b:1: UNAVAILABLE: "
                "connection refused"));
  EXPECT_EQ(ModelsOn("a:1"), 0u);
  EXPECT_TRUE(coordinator_->registry().ListModels().empty());
  FailWith("b:1", absl::OkStatus());
  EXPECT_TRUE(*coordinator_->RegisterModel(TestModel("m"), kTimeout));
}

TEST_F(CoordinatorTest, AFailureThatRepeatingCannotHealWins) {
  RegisterBoth();
  FailWith("a:1", absl::UnavailableError("busy"));
  FailWith("b:1",
           StatusWithReason(absl::StatusCode::kFailedPrecondition, "MODEL_DIFFERS", "other"));
  const auto failed = coordinator_->RegisterModel(TestModel("m"), kTimeout);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(failed.status()), "MODEL_DIFFERS");
}

TEST_F(CoordinatorTest, ADifferentModelIsRefusedBeforeAnyShardIsAsked) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m", 100), kTimeout).ok());
  const auto refused = coordinator_->RegisterModel(TestModel("m", 101), kTimeout);
  EXPECT_EQ(ReasonOf(refused.status()), "MODEL_DIFFERS");
  // Shards may still be given the first one again, as newly registered.
  EXPECT_EQ(shards_.With("a:1", [](auto& shard) { return shard.largest_head; }), 100);
}

TEST_F(CoordinatorTest, AShardThatComesBackEmptyGetsItsModelsAgain) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  shards_.With("b:1", [](auto& shard) { shard.models.clear(); });
  FailWith("b:1", absl::UnavailableError("still starting"));
  ASSERT_TRUE(coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {}).ok());
  while (shards_.With("b:1", [](auto& shard) { return shard.creates; }) < 2) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  FailWith("b:1", absl::OkStatus());
  EXPECT_TRUE(shards_.AwaitModel("b:1", "m"));
}

TEST_F(CoordinatorTest, AnEndThatWasAskedForIsNoWarning) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  shards_.With("b:1", [](auto& shard) { shard.models.clear(); });
  FailWith("b:1", StatusWithReason(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "it ends"));
  testing::internal::CaptureStderr();
  ASSERT_TRUE(coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {}).ok());
  // When it is tried for the second time, the first has said what it says.
  const bool tried = Eventually(
      [&] { return shards_.With("b:1", [](auto& shard) { return shard.creates; }) >= 3; });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("lacks models")));
  EXPECT_TRUE(tried);
}

TEST_F(CoordinatorTest, ModelsOfShardsAreAdopted) {
  // A coordinator without memory restarts over shards that loaded their models from disk.
  ASSERT_TRUE(
      coordinator_->registry().Register(Registration(1, "a:1", 0), {TestModel("m", 100)}).ok());
  EXPECT_EQ(coordinator_->registry().ListModels().size(), 1u);
  const auto refused =
      coordinator_->registry().Register(Registration(2, "b:1", 1), {TestModel("m", 101)});
  EXPECT_EQ(ReasonOf(refused.status()), "MODEL_DIFFERS");
  ASSERT_TRUE(coordinator_->registry().Register(Registration(2, "b:1", 1), {}).ok());
  EXPECT_TRUE(shards_.AwaitModel("b:1", "m"));
}

TEST_F(CoordinatorTest, AnUnregisteredModelIsGoneEverywhereWithItsJobs) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  shards_.With("a:1", [](auto& shard) { shard.models.clear(); });  // one has lost it already
  EXPECT_EQ(ReasonOf(coordinator_->UnregisterModel("m", /*force=*/false, kTimeout)), "JOB_RUNS");
  EXPECT_TRUE(coordinator_->UnregisterModel("m", /*force=*/true, kTimeout).ok());
  EXPECT_EQ(ModelsOn("b:1"), 0u);
  EXPECT_TRUE(coordinator_->registry().ListModels().empty());
  EXPECT_EQ(ReasonOf(coordinator_->jobs().Acquire({.job = "job"}).status()), "UNKNOWN_JOB");
  EXPECT_EQ(ReasonOf(coordinator_->UnregisterModel("m", /*force=*/false, kTimeout)),
            "UNKNOWN_MODEL");
}

TEST_F(CoordinatorTest, LeftoversOfAFailedRegistrationCanBeDropped) {
  RegisterBoth();
  shards_.With("b:1", [](auto& shard) { shard.models.emplace("m", CreateModelCommand{}); });
  EXPECT_TRUE(coordinator_->UnregisterModel("m", /*force=*/false, kTimeout).ok());
  EXPECT_EQ(ModelsOn("b:1"), 0u);
}

TEST_F(CoordinatorTest, CheckpointsAreSummedOverShards) {
  RegisterBoth();
  EXPECT_EQ(ReasonOf(coordinator_->CreateCheckpoint("m", "best", kTimeout, progress_).status()),
            "UNKNOWN_MODEL");
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  EXPECT_EQ(ReasonOf(coordinator_->CreateCheckpoint("m", "../x", kTimeout, progress_).status()),
            "BAD_NAME");
  const auto size = coordinator_->CreateCheckpoint("m", "best", kTimeout, progress_);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->rows, 20);
  EXPECT_EQ(size->bytes, 2000);
  EXPECT_EQ(*coordinator_->RestoreCheckpoint("m", "best", kTimeout, progress_), 20);
  const auto missing = coordinator_->RestoreCheckpoint("m", "none", kTimeout, progress_);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("failed on 2 of 2 shards"));
}

TEST_F(CoordinatorTest, JobsAreOpenedJoinedAndCompared) {
  RegisterBoth();
  EXPECT_EQ(ReasonOf(coordinator_->RegisterJob(Spec(), ClientId{1}).status()), "UNKNOWN_MODEL");
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  EXPECT_TRUE(*coordinator_->RegisterJob(Spec(), ClientId{1}));
  EXPECT_FALSE(*coordinator_->RegisterJob(Spec(), ClientId{2}));
  JobSpec other = Spec();
  other.seed = 99;
  const auto refused = coordinator_->RegisterJob(other, ClientId{3});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("seed 0"));
  other = Spec();
  other.training.input_dropout = 0.5;
  EXPECT_THAT(std::string(coordinator_->RegisterJob(other, ClientId{3}).status().message()),
              HasSubstr("training.input_dropout 0.0, but this trainer has 0.5"));
  other = Spec();
  other.rates.push_back({.table = "in"});
  EXPECT_EQ(ReasonOf(coordinator_->RegisterJob(other, ClientId{3}).status()), "JOB_DIFFERS");
  other.job = "other";
  other.rates[0].learning_rate = 0.0;
  EXPECT_EQ(ReasonOf(coordinator_->RegisterJob(other, ClientId{3}).status()), "BAD_JOB");
  const ClusterStatus status = coordinator_->Status();
  ASSERT_EQ(status.jobs.size(), 1u);
  EXPECT_EQ(status.jobs[0].trainers, 2);
  const auto work = coordinator_->jobs().Acquire({.job = "job", .client = ClientId{1}});
  ASSERT_TRUE(work.ok());
  EXPECT_TRUE(std::holds_alternative<ChunkWork>(*work));
  EXPECT_TRUE(coordinator_->jobs().Leave("job", ClientId{1}).ok());
  EXPECT_EQ(ReasonOf(coordinator_->jobs().Leave("nojob", ClientId{1})), "UNKNOWN_JOB");
}

// The rows of the best epoch would take those away that the other job trains.
TEST_F(CoordinatorTest, NothingIsRestoredWhileAnotherJobTrainsTheModel) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  JobSpec one = Spec();
  one.samples_per_epoch = one.chunk_samples = 10;
  one.max_epochs = 1;
  one.evaluate = true;
  JobSpec two = one;
  two.job = "two";
  const auto ask = [&](const JobSpec& job, std::vector<LeaseReport> finished) {
    return *coordinator_->jobs().Acquire(
        {.job = job.job, .client = {1}, .finished = std::move(finished)});
  };
  const auto complete = [&](const JobSpec& job) {
    EXPECT_TRUE(coordinator_->RegisterJob(job, ClientId{1}).ok());
    const auto chunk = std::get<ChunkWork>(ask(job, {}));
    const auto evaluation =
        std::get<EvaluationWork>(ask(job, {{.lease = chunk.lease, .samples = chunk.count}}));
    return std::get<StageWork>(ask(job, {{.lease = evaluation.lease, .metric = 0.5}}));
  };
  ASSERT_TRUE(coordinator_->RegisterJob(two, ClientId{2}).ok());
  EXPECT_EQ(complete(one).best_epoch, -1);
  ASSERT_TRUE(coordinator_->jobs().Leave("two", ClientId{2}).ok());
  EXPECT_EQ(ask(one, {}).index(), Work(StageWork()).index());
  EXPECT_EQ(std::get<StageWork>(ask(one, {})).best_epoch, 0) << "nobody trains it now";
}

TEST_F(CoordinatorTest, AJobIsDeletedOnceItHasEnded) {
  Restart(true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  JobTable& jobs = coordinator_->jobs();
  EXPECT_EQ(ReasonOf(jobs.Cancel("job").status()), "UNKNOWN_JOB");
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  EXPECT_EQ(ReasonOf(jobs.Delete("job")), "JOB_RUNS");
  EXPECT_TRUE(jobs.Cancel("job")->cancelled);
  Restart(true);
  ASSERT_EQ(coordinator_->Status().jobs.size(), 1u);
  EXPECT_EQ(coordinator_->Status().jobs[0].state(), "cancelled");
  EXPECT_TRUE(coordinator_->jobs().Delete("job").ok());
  EXPECT_EQ(ReasonOf(coordinator_->jobs().Delete("job")), "UNKNOWN_JOB");
  Restart(true);
  EXPECT_TRUE(coordinator_->Status().jobs.empty());
}

TEST_F(CoordinatorTest, AStoreCarriesEverythingOverARestart) {
  Restart(true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("gone"), kTimeout).ok());
  JobSpec lost = Spec();
  lost.job = "lost";
  lost.model = "gone";
  ASSERT_TRUE(coordinator_->RegisterJob(lost, ClientId{1}).ok());
  EXPECT_EQ(ReasonOf(coordinator_->UnregisterModel("gone", /*force=*/false, kTimeout)), "JOB_RUNS");
  ASSERT_TRUE(coordinator_->UnregisterModel("gone", /*force=*/true, kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  const auto work = coordinator_->jobs().Acquire({.job = "job", .client = ClientId{1}});
  const auto chunk = std::get<ChunkWork>(*work);
  Restart(true);
  ASSERT_EQ(coordinator_->Status().jobs.size(), 1u) << "jobs go with their model";
  EXPECT_EQ(
      std::get<ChunkWork>(*coordinator_->jobs().Acquire({.job = "job", .client = ClientId{1}})),
      chunk)
      << "the trainer still has its lease";
  EXPECT_EQ(coordinator_->registry().ListModels(), std::vector<ModelSpec>{TestModel("m")});
  EXPECT_EQ(coordinator_->registry().Heartbeat(ShardId(1), 1, 0, 0)->topology_version, 1u);
  EXPECT_TRUE(coordinator_->registry().Map().ok());
  EXPECT_EQ(coordinator_->registry().Register(Registration(9, "b:1", 1, 3.0), {})->generation, 2u);
}

TEST_F(CoordinatorTest, MetricsShowTheCluster) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  ASSERT_TRUE(coordinator_->jobs().Acquire({.job = "job", .client = ClientId{1}}).ok());
  const std::string page = metrics_.Expose();
  for (const char* line :
       {"dslide_coordinator_registered_shards{health=\"alive\"} 2\n",
        "dslide_coordinator_registered_shards{health=\"lost\"} 0\n",
        "dslide_coordinator_topology_version 1\n", "dslide_coordinator_models 1\n",
        "dslide_coordinator_jobs{state=\"running\"} 1\n", "dslide_coordinator_leases 1\n",
        "dslide_coordinator_leases_granted_total 1\n",
        // Under a name of their own: "job" is what Prometheus calls the target.
        "dslide_coordinator_job_epoch{job_name=\"job\",model=\"m\"} 0\n",
        "dslide_coordinator_job_trainers{job_name=\"job\",model=\"m\"} 1\n",
        "dslide_coordinator_job_finished{job_name=\"job\",model=\"m\"} 0\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  EXPECT_THAT(page, Not(HasSubstr("dslide_coordinator_job_loss{"))) << "nothing was reported yet";
  // Counts survive the job they came from.
  ASSERT_TRUE(coordinator_->jobs().Cancel("job").ok());
  ASSERT_TRUE(coordinator_->UnregisterModel("m", /*force=*/false, kTimeout).ok());
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_leases_granted_total 1\n"));
}

TEST_F(CoordinatorTest, MetricsShowHowTheSlotsAreDealt) {
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_slots{shard=\"0\"} 0\n"));
  ASSERT_TRUE(coordinator_->registry().Register(Registration(1, "a:1"), {}).ok());
  ASSERT_TRUE(coordinator_->registry().Register(Registration(2, "b:1", 1, 3.0), {}).ok());
  const std::string page = metrics_.Expose();
  EXPECT_THAT(page, HasSubstr("dslide_coordinator_slots{shard=\"0\"} 256\n"));
  EXPECT_THAT(page, HasSubstr("dslide_coordinator_slots{shard=\"1\"} 768\n"));
}

TEST_F(CoordinatorTest, ThePageForPeopleShowsShardsModelsAndJobs) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  const std::string html = RenderStatusPage(
      "dslide-coordinator", true, "ready",
      MakeStatusPage(coordinator_->Status(), coordinator_->registry().ListModels(), {}));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">Shards</th><td>2 of 2</td>"));
  EXPECT_THAT(html, HasSubstr("<td>alive</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">Models</th><td>m</td>"));
  EXPECT_THAT(html, HasSubstr("<td>job</td>"));
  EXPECT_THAT(html, HasSubstr("commands/s</th>"));
}

TEST_F(CoordinatorTest, TheBestEpochsOfUnfinishedJobsStayBesideANewOne) {
  RegisterBoth();
  for (const char* model : {"m", "other"}) {
    ASSERT_TRUE(coordinator_->RegisterModel(TestModel(model), kTimeout).ok());
  }
  for (const char* job : {"one", "two", "ended", "elsewhere"}) {
    JobSpec spec = Spec();
    spec.job = job;
    if (spec.job == "elsewhere") spec.model = "other";
    ASSERT_TRUE(coordinator_->RegisterJob(spec, ClientId{1}).ok());
  }
  ASSERT_TRUE(coordinator_->jobs().Cancel("ended").ok());
  ASSERT_TRUE(
      coordinator_->CreateCheckpoint("m", BestCheckpointOf("one"), kTimeout, progress_).ok());
  const auto kept = shards_.With("a:1", [](const auto& shard) { return shard.best_kept; });
  EXPECT_THAT(kept, ::testing::ElementsAre("best-one", "best-two"));
  // Others stand for themselves.
  ASSERT_TRUE(coordinator_->CreateCheckpoint("m", "before", kTimeout, progress_).ok());
  EXPECT_TRUE(shards_.With("a:1", [](const auto& shard) { return shard.best_kept; }).empty());
}

TEST_F(CoordinatorTest, OldFinishedJobsMakeRoomForNewOnes) {
  coordinator_.reset();
  auto created =
      Coordinator::Create({.membership = {.expected_shards = 1}, .jobs = {.max_jobs = 2}}, &clock_,
                          std::make_unique<FakeShards>(), {}, &metrics_);
  ASSERT_TRUE(created.ok());
  Coordinator& coordinator = **created;
  ASSERT_TRUE(coordinator.registry().Register(Registration(1, "a:1"), {}).ok());
  ASSERT_TRUE(coordinator.RegisterModel(TestModel("m"), kTimeout).ok());
  const auto add = [&](const std::string& name) {
    JobSpec spec = Spec();
    spec.job = name;
    return coordinator.RegisterJob(spec, ClientId{1}).status();
  };
  ASSERT_TRUE(add("one").ok());
  ASSERT_TRUE(add("two").ok());
  EXPECT_EQ(ReasonOf(add("three")), "TOO_MANY_JOBS");
  std::vector<LeaseReport> finished;
  for (int i = 0; i < 3; ++i) {  // two chunks, then the end
    const auto work =
        coordinator.jobs().Acquire({.job = "two", .client = {1}, .finished = finished});
    ASSERT_TRUE(work.ok());
    if (const auto* chunk = std::get_if<ChunkWork>(&*work)) {
      finished = {{.lease = chunk->lease, .samples = chunk->count}};
    }
  }
  EXPECT_TRUE(add("three").ok());
  EXPECT_EQ(ReasonOf(coordinator.jobs().Leave("two", ClientId{1})), "UNKNOWN_JOB");
  EXPECT_TRUE(coordinator.jobs().Leave("one", ClientId{1}).ok());
}

}  // namespace
}  // namespace dslide::coordinator
