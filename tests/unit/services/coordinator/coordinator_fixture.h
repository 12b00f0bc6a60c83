// A coordinator over shards that are only pretended, for tests of its parts.

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/coordinator/control/coordinator.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/coordinator/fake_shards.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {

inline constexpr absl::Duration kTimeout = kPatience;

// The coordinator owns its ShardAdmin, the test keeps the shards.
class ForwardingAdmin final : public ShardAdmin {
 public:
  explicit ForwardingAdmin(FakeShards* to) : to_(to) {}
  absl::StatusOr<bool> CreateModel(const std::string& address, const CreateModelCommand& c,
                                   absl::Duration t) override {
    return to_->CreateModel(address, c, t);
  }
  absl::Status DropModel(const std::string& address, const std::string& m,
                         absl::Duration t) override {
    return to_->DropModel(address, m, t);
  }
  absl::StatusOr<CheckpointSize> WriteCheckpoint(const std::string& address, const std::string& m,
                                                 const std::string& c,
                                                 const std::vector<std::string>& best_kept,
                                                 absl::Duration t) override {
    return to_->WriteCheckpoint(address, m, c, best_kept, t);
  }
  absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address, const std::string& m,
                                         const std::string& c, absl::Duration t) override {
    return to_->LoadCheckpoint(address, m, c, t);
  }
  absl::StatusOr<absl::Duration> EstimateFreezeDelay(const std::string& address,
                                                     uint64_t generation,
                                                     absl::Duration t) override {
    return to_->EstimateFreezeDelay(address, generation, t);
  }
  absl::StatusOr<std::vector<ClientStep>> FreezeSteps(const std::string& address,
                                                      uint64_t checkpoint_id, uint64_t generation,
                                                      absl::Duration limit,
                                                      absl::Duration t) override {
    return to_->FreezeSteps(address, checkpoint_id, generation, limit, t);
  }
  absl::StatusOr<std::vector<ClientStep>> AdmitSteps(const std::string& address,
                                                     uint64_t checkpoint_id,
                                                     const std::vector<ClientStep>& up_to,
                                                     const std::vector<ClientId>& evict,
                                                     absl::Duration t) override {
    return to_->AdmitSteps(address, checkpoint_id, up_to, evict, t);
  }
  absl::StatusOr<absl::Duration> CutCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                               const PartBase& base, absl::Duration t) override {
    return to_->CutCheckpoint(address, checkpoint_id, base, t);
  }
  absl::Status AbortCheckpoint(const std::string& address, uint64_t checkpoint_id,
                               absl::Duration t) override {
    return to_->AbortCheckpoint(address, checkpoint_id, t);
  }
  absl::StatusOr<PartProgress> CheckpointProgress(const std::string& address,
                                                  uint64_t checkpoint_id,
                                                  absl::Duration t) override {
    return to_->CheckpointProgress(address, checkpoint_id, t);
  }
  absl::Status VerifyCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                uint32_t checksum, absl::Duration t,
                                WorkProgress& progress) override {
    return to_->VerifyCheckpoint(address, checkpoint_id, checksum, t, progress);
  }
  absl::Status PrepareRollback(const std::string& address, uint64_t checkpoint_id,
                               uint32_t checksum, absl::Duration t,
                               WorkProgress& progress) override {
    return to_->PrepareRollback(address, checkpoint_id, checksum, t, progress);
  }
  absl::Status RetainCheckpoints(const std::string& address, const std::vector<uint64_t>& epochs,
                                 absl::Duration t) override {
    return to_->RetainCheckpoints(address, epochs, t);
  }
  absl::StatusOr<int64_t> Rollback(const std::string& address, uint64_t checkpoint_id,
                                   uint32_t checksum, absl::Duration t) override {
    return to_->Rollback(address, checkpoint_id, checksum, t);
  }
  void Stop() override {}

 private:
  FakeShards* to_;
};

class CoordinatorFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    data_dir_ = absl::StrCat(::testing::TempDir(), "coordinator.", getpid());
    std::filesystem::remove_all(data_dir_);
    Restart(false);
  }
  void TearDown() override {
    // Its threads write to the directory until it is gone.
    coordinator_.reset();
    std::filesystem::remove_all(data_dir_);
  }

  // A new coordinator over the same shards.
  void Restart(bool with_store, int64_t expected = 2) {
    coordinator_.reset();
    CoordinatorStores stores;
    if (with_store) {
      auto committed = ManifestStore::Open(data_dir_);
      ASSERT_TRUE(committed.ok()) << committed.status();
      stores.manifests = *std::move(committed);
      auto opened = OpenCatalogStore(data_dir_);
      ASSERT_TRUE(opened.ok()) << opened.status();
      stores.catalog = *std::move(opened);
      auto jobs = OpenJobStore(data_dir_);
      ASSERT_TRUE(jobs.ok()) << jobs.status();
      stores.jobs = *std::move(jobs);
      auto assets = AssetStore::Open(AssetFolders::OnDisk(data_dir_), {});
      ASSERT_TRUE(assets.ok()) << assets.status();
      stores.assets = *std::move(assets);
    }
    auto created = Coordinator::Create(
        {.membership = {.expected_shards = expected}, .scrub_interval = absl::Hours(24)}, &clock_,
        std::make_unique<ForwardingAdmin>(&shards_), std::move(stores), &metrics_);
    ASSERT_TRUE(created.ok()) << created.status();
    coordinator_ = *std::move(created);
  }

  void RegisterBoth() {
    ASSERT_TRUE(coordinator_->registry().Register(Registration(1, "a:1", 0), {}).ok());
    ASSERT_TRUE(coordinator_->registry().Register(Registration(2, "b:1", 1, 3.0), {}).ok());
  }
  void StartWithModel() {
    Restart(/*with_store=*/true);
    RegisterBoth();
    ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  }
  size_t ModelsOn(const std::string& address) {
    return shards_.With(address, [](auto& shard) { return shard.models.size(); });
  }
  void FailWith(const std::string& address, const absl::Status& status) {
    shards_.With(address, [&](auto& shard) { shard.failure = status; });
  }
  // What the background thread does by and by.
  template <typename Done>
  static void Await(const Done& done) {
    ASSERT_TRUE(Eventually(done));
  }
  void AwaitRollback(const std::string& address) {
    Await([&] { return shards_.With(address, [](auto& s) { return !s.rolled_back.empty(); }); });
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
  WorkProgress progress_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace dslide::coordinator
