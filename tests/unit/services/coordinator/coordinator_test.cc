#include "services/coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/wire/reason_words.h"
#include "services/coordinator/status_page.h"
#include "tests/unit/services/coordinator/fake_shards.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(5);

class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data_dir_ = absl::StrCat(::testing::TempDir(), "coordinator.", getpid());
    std::filesystem::remove_all(data_dir_);
    Restart(false);
  }
  void TearDown() override { std::filesystem::remove_all(data_dir_); }

  // A new coordinator over the same shards.
  void Restart(bool with_store, int64_t expected = 2) {
    coordinator_.reset();
    std::unique_ptr<CatalogStore> store;
    std::unique_ptr<ManifestStore> manifests;
    if (with_store) {
      auto committed = ManifestStore::Open(data_dir_);
      ASSERT_TRUE(committed.ok()) << committed.status();
      manifests = *std::move(committed);
      auto opened = OpenCatalogStore(data_dir_);
      ASSERT_TRUE(opened.ok()) << opened.status();
      store = *std::move(opened);
    }
    // The coordinator owns its ShardAdmin, the test keeps the shards.
    class Forward final : public ShardAdmin {
     public:
      explicit Forward(FakeShards* to) : to_(to) {}
      absl::StatusOr<bool> CreateModel(const std::string& address, const CreateModelCommand& c,
                                       absl::Duration t) override {
        return to_->CreateModel(address, c, t);
      }
      absl::Status DropModel(const std::string& address, const std::string& m,
                             absl::Duration t) override {
        return to_->DropModel(address, m, t);
      }
      absl::StatusOr<CheckpointSize> WriteCheckpoint(const std::string& address,
                                                     const std::string& m, const std::string& c,
                                                     absl::Duration t) override {
        return to_->WriteCheckpoint(address, m, c, t);
      }
      absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address, const std::string& m,
                                             const std::string& c, absl::Duration t) override {
        return to_->LoadCheckpoint(address, m, c, t);
      }
      absl::StatusOr<std::vector<ClientStep>> FreezeSteps(const std::string& address,
                                                          uint64_t epoch, uint64_t generation,
                                                          absl::Duration limit,
                                                          absl::Duration t) override {
        return to_->FreezeSteps(address, epoch, generation, limit, t);
      }
      absl::StatusOr<std::vector<ClientStep>> AdmitSteps(const std::string& address, uint64_t epoch,
                                                         const std::vector<ClientStep>& up_to,
                                                         const std::vector<ClientId>& give_up,
                                                         absl::Duration t) override {
        return to_->AdmitSteps(address, epoch, up_to, give_up, t);
      }
      absl::Status CutCheckpoint(const std::string& address, uint64_t epoch, bool abandon,
                                 absl::Duration t) override {
        return to_->CutCheckpoint(address, epoch, abandon, t);
      }
      absl::StatusOr<PartProgress> CheckpointProgress(const std::string& address, uint64_t epoch,
                                                      absl::Duration t) override {
        return to_->CheckpointProgress(address, epoch, t);
      }
      absl::Status VerifyCheckpoint(const std::string& address, uint64_t epoch, uint32_t checksum,
                                    absl::Duration t) override {
        return to_->VerifyCheckpoint(address, epoch, checksum, t);
      }
      absl::Status RetainCheckpoints(const std::string& address,
                                     const std::vector<uint64_t>& epochs,
                                     absl::Duration t) override {
        return to_->RetainCheckpoints(address, epochs, t);
      }
      absl::StatusOr<int64_t> RollBack(const std::string& address, uint64_t epoch,
                                       uint32_t checksum, absl::Duration t) override {
        return to_->RollBack(address, epoch, checksum, t);
      }
      void Stop() override {}

     private:
      FakeShards* to_;
    };
    auto created = Coordinator::Create({.membership = {.expected_shards = expected}}, &clock_,
                                       std::make_unique<Forward>(&shards_), std::move(store),
                                       std::move(manifests), &metrics_);
    ASSERT_TRUE(created.ok()) << created.status();
    coordinator_ = *std::move(created);
  }

  void RegisterBoth() {
    ASSERT_TRUE(coordinator_->RegisterShard(Registration(1, "a:1", 0), {}).ok());
    ASSERT_TRUE(coordinator_->RegisterShard(Registration(2, "b:1", 1, 3.0), {}).ok());
  }
  size_t ModelsOn(const std::string& address) {
    return shards_.With(address, [](auto& shard) { return shard.models.size(); });
  }
  void FailWith(const std::string& address, const absl::Status& status) {
    shards_.With(address, [&](auto& shard) { shard.failure = status; });
  }
  static JobSpec Spec() {
    JobSpec spec;
    spec.job = "job";
    spec.model = "m";
    spec.samples_per_epoch = 100;
    spec.chunk_samples = 50;
    spec.max_epochs = 1;
    return spec;
  }

  std::string data_dir_;
  FakeClock clock_;
  Metrics metrics_;
  FakeShards shards_;
  std::unique_ptr<Coordinator> coordinator_;
};

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
  EXPECT_EQ(coordinator_->ListModels().size(), 1u);
}

TEST_F(CoordinatorTest, AModelNeedsAllShards) {
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(1, "a:1"), {}).ok());
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
  EXPECT_TRUE(coordinator_->ListModels().empty());
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
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(3, "b:1", 1, 3.0), {}).ok());
  while (shards_.With("b:1", [](auto& shard) { return shard.creates; }) < 2) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  FailWith("b:1", absl::OkStatus());
  EXPECT_TRUE(shards_.AwaitModel("b:1", "m"));
}

TEST_F(CoordinatorTest, ModelsOfShardsAreAdopted) {
  // A coordinator without memory restarts over shards that loaded their models from disk.
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(1, "a:1", 0), {TestModel("m", 100)}).ok());
  EXPECT_EQ(coordinator_->ListModels().size(), 1u);
  const auto refused =
      coordinator_->RegisterShard(Registration(2, "b:1", 1), {TestModel("m", 101)});
  EXPECT_EQ(ReasonOf(refused.status()), "MODEL_DIFFERS");
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(2, "b:1", 1), {}).ok());
  EXPECT_TRUE(shards_.AwaitModel("b:1", "m"));
}

TEST_F(CoordinatorTest, AnUnregisteredModelIsGoneEverywhereWithItsJobs) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  shards_.With("a:1", [](auto& shard) { shard.models.clear(); });  // one has lost it already
  EXPECT_TRUE(coordinator_->UnregisterModel("m", kTimeout).ok());
  EXPECT_EQ(ModelsOn("b:1"), 0u);
  EXPECT_TRUE(coordinator_->ListModels().empty());
  EXPECT_EQ(ReasonOf(coordinator_->AcquireWork("job", {}).status()), "UNKNOWN_JOB");
  EXPECT_EQ(ReasonOf(coordinator_->UnregisterModel("m", kTimeout)), "UNKNOWN_MODEL");
}

TEST_F(CoordinatorTest, LeftoversOfAFailedRegistrationCanBeDropped) {
  RegisterBoth();
  shards_.With("b:1", [](auto& shard) { shard.models.emplace("m", CreateModelCommand{}); });
  EXPECT_TRUE(coordinator_->UnregisterModel("m", kTimeout).ok());
  EXPECT_EQ(ModelsOn("b:1"), 0u);
}

TEST_F(CoordinatorTest, CheckpointsAreSummedOverShards) {
  RegisterBoth();
  EXPECT_EQ(ReasonOf(coordinator_->CreateCheckpoint("m", "best", kTimeout).status()),
            "UNKNOWN_MODEL");
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  EXPECT_EQ(ReasonOf(coordinator_->CreateCheckpoint("m", "../x", kTimeout).status()), "BAD_NAME");
  const auto size = coordinator_->CreateCheckpoint("m", "best", kTimeout);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->rows, 20);
  EXPECT_EQ(size->bytes, 2000);
  EXPECT_EQ(*coordinator_->RestoreCheckpoint("m", "best", kTimeout), 20);
  const auto missing = coordinator_->RestoreCheckpoint("m", "none", kTimeout);
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
  const ClusterStatus status = coordinator_->Status();
  ASSERT_EQ(status.jobs.size(), 1u);
  EXPECT_EQ(status.jobs[0].progress.trainers, 2);
  const auto work = coordinator_->AcquireWork("job", {.client = ClientId{1}});
  ASSERT_TRUE(work.ok());
  EXPECT_TRUE(std::holds_alternative<ChunkWork>(*work));
  EXPECT_TRUE(coordinator_->LeaveJob("job", ClientId{1}).ok());
  EXPECT_EQ(ReasonOf(coordinator_->LeaveJob("nojob", ClientId{1})), "UNKNOWN_JOB");
}

TEST_F(CoordinatorTest, AStoreCarriesEverythingOverARestart) {
  Restart(true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("gone"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->UnregisterModel("gone", kTimeout).ok());
  Restart(true);
  EXPECT_EQ(coordinator_->ListModels(), std::vector<ModelSpec>{TestModel("m")});
  EXPECT_EQ(*coordinator_->Heartbeat(ShardId(1), 1, 0, 0), 1u);
  EXPECT_TRUE(coordinator_->Map().ok());
  EXPECT_EQ(coordinator_->RegisterShard(Registration(9, "b:1", 1, 3.0), {})->generation, 2u);
}

TEST_F(CoordinatorTest, MetricsShowTheCluster) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  ASSERT_TRUE(coordinator_->AcquireWork("job", {.client = ClientId{1}}).ok());
  const std::string page = metrics_.Expose();
  for (const char* line :
       {"dslide_coordinator_registered_shards{health=\"alive\"} 2\n",
        "dslide_coordinator_registered_shards{health=\"lost\"} 0\n",
        "dslide_coordinator_topology_version 1\n", "dslide_coordinator_models 1\n",
        "dslide_coordinator_jobs{state=\"running\"} 1\n", "dslide_coordinator_leases 1\n",
        "dslide_coordinator_leases_granted_total 1\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  // Counts survive the job they came from.
  ASSERT_TRUE(coordinator_->UnregisterModel("m", kTimeout).ok());
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_leases_granted_total 1\n"));
}

TEST_F(CoordinatorTest, MetricsShowHowTheSlotsAreDealt) {
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_slots{shard=\"0\"} 0\n"));
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(1, "a:1"), {}).ok());
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(2, "b:1", 1, 3.0), {}).ok());
  const std::string page = metrics_.Expose();
  EXPECT_THAT(page, HasSubstr("dslide_coordinator_slots{shard=\"0\"} 256\n"));
  EXPECT_THAT(page, HasSubstr("dslide_coordinator_slots{shard=\"1\"} 768\n"));
}

TEST_F(CoordinatorTest, ThePageForPeopleShowsShardsModelsAndJobs) {
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterJob(Spec(), ClientId{1}).ok());
  const std::string html =
      RenderStatusPage("dslide-coordinator", true, "ready", MakeStatusPage(coordinator_->Status()));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">Shards</th><td>2 of 2</td>"));
  EXPECT_THAT(html, HasSubstr("<td>alive</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">Models</th><td>m</td>"));
  EXPECT_THAT(html, HasSubstr("<td>job</td>"));
}

TEST_F(CoordinatorTest, OldFinishedJobsMakeRoomForNewOnes) {
  coordinator_.reset();
  auto created = Coordinator::Create({.membership = {.expected_shards = 1}, .max_jobs = 2}, &clock_,
                                     std::make_unique<FakeShards>(), nullptr, nullptr, &metrics_);
  ASSERT_TRUE(created.ok());
  Coordinator& coordinator = **created;
  ASSERT_TRUE(coordinator.RegisterShard(Registration(1, "a:1"), {}).ok());
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
    const auto work = coordinator.AcquireWork("two", {.client = {1}, .finished = finished});
    ASSERT_TRUE(work.ok());
    if (const auto* chunk = std::get_if<ChunkWork>(&*work)) {
      finished = {{.lease = chunk->lease, .samples = chunk->count}};
    }
  }
  EXPECT_TRUE(add("three").ok());
  EXPECT_EQ(ReasonOf(coordinator.LeaveJob("two", ClientId{1})), "UNKNOWN_JOB");
  EXPECT_TRUE(coordinator.LeaveJob("one", ClientId{1}).ok());
}

TEST_F(CoordinatorTest, ClusterCheckpointsNeedADataDirectory) {
  RegisterBoth();
  EXPECT_EQ(ReasonOf(coordinator_->TakeClusterCheckpoint().status()), reason::kNoDataDir);
  EXPECT_EQ(ReasonOf(coordinator_->ListClusterCheckpoints().status()), reason::kNoDataDir);
  EXPECT_EQ(ReasonOf(coordinator_->RestoreClusterCheckpoint(0).status()), reason::kNoDataDir);
}

TEST_F(CoordinatorTest, ARestoreBringsBackModelsAndJobs) {
  Restart(/*with_store=*/true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  const JobSpec spec = Spec();
  const ClientId client = {1};
  ASSERT_TRUE(coordinator_->RegisterJob(spec, client).ok());
  ASSERT_TRUE(coordinator_->TakeClusterCheckpoint().ok());
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_checkpoint_epoch 1\n"));

  const auto work = coordinator_->AcquireWork(spec.job, {.client = client});
  const auto& chunk = std::get<ChunkWork>(*work);
  ASSERT_TRUE(
      coordinator_
          ->AcquireWork(spec.job, {.client = client,
                                   .finished = {{.lease = chunk.lease, .samples = chunk.count}}})
          .ok());
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("later"), kTimeout).ok());
  const auto restored = coordinator_->RestoreClusterCheckpoint(0);
  ASSERT_TRUE(restored.ok()) << restored.status();
  ASSERT_EQ(coordinator_->ListModels().size(), 1u);
  EXPECT_EQ(coordinator_->ListModels()[0].name, "m");
  ASSERT_EQ(coordinator_->Status().jobs.size(), 1u);
  EXPECT_EQ(coordinator_->Status().jobs[0].progress.samples_done, 0);
  EXPECT_EQ(coordinator_->Map()->lineage, 1u);
  // Also what a coordinator has forgotten comes back.
  Restart(/*with_store=*/true);
  RegisterBoth();
  EXPECT_EQ(coordinator_->Map()->lineage, 1u);
  EXPECT_TRUE(coordinator_->Status().jobs.empty());
  ASSERT_TRUE(coordinator_->RestoreClusterCheckpoint(1).ok());
  EXPECT_EQ(coordinator_->Status().jobs.size(), 1u);
}

// Its disk is lost, too: nobody makes fresh rows in the place of old ones.
TEST_F(CoordinatorTest, AShardWithoutItsPartOfACheckpointWaitsForAPerson) {
  Restart(/*with_store=*/true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->TakeClusterCheckpoint().ok());
  shards_.With("b:1", [](auto& shard) {
    shard.models.clear();
    shard.cuts.clear();
  });
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(3, "b:1", 1, 3.0), {}).ok());
  // A checkpoint now would have nothing of that shard, and be the newest one.
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->TakeClusterCheckpoint().status()));
  absl::SleepFor(absl::Milliseconds(500));  // as long as two tries take
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->TakeClusterCheckpoint().status()));
  EXPECT_EQ(coordinator_->ListClusterCheckpoints()->size(), 1u);
  EXPECT_EQ(ModelsOn("b:1"), 0u);
  shards_.With("a:1", [](auto& shard) { EXPECT_TRUE(shard.rolled_back.empty()); });
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_models_recreated_total 0\n"));
}

// A crash has taken a shard's rows: the whole cluster goes back, and nothing begins afresh.
TEST_F(CoordinatorTest, AShardThatComesBackWithoutItsRowsTakesTheClusterBack) {
  Restart(/*with_store=*/true);
  RegisterBoth();
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  ASSERT_TRUE(coordinator_->TakeClusterCheckpoint().ok());
  ASSERT_TRUE(coordinator_->RegisterShard(Registration(3, "b:1", 1, 3.0), {}).ok());
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (shards_.With("a:1", [](auto& shard) { return shard.rolled_back.empty(); })) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_models_recreated_total 0\n"));
}

}  // namespace
}  // namespace dslide::coordinator
