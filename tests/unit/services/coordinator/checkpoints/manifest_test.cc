#include "services/coordinator/checkpoints/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/system/sealed_text.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Manifest Sample(uint64_t checkpoint_id) {
  Manifest manifest;
  manifest.checkpoint_id = checkpoint_id;
  manifest.created_unix_ms = 1'700'000'000'123;
  manifest.topology_version = 4;
  manifest.restore_count = 2;
  manifest.parts = {{.shard = ShardId(0),
                     .generation = 3,
                     .rows = 10,
                     .files = 2,
                     .bytes = 500,
                     .files_checksum = 0xfedcba98,
                     .base_checkpoint_id = checkpoint_id - 1,
                     .full_checkpoint_id = 1,
                     .increments = 3,
                     .written_bytes = 40},
                    {.shard = ShardId(1), .generation = 5}};
  manifest.models = {TestModel("m"), TestModel("other", 7)};
  JobRecord job;
  job.spec = {.job = "j",
              .model = "m",
              .samples_per_epoch = 1000,
              .chunk_samples = 100,
              .max_epochs = 3,
              .seed = 0xffffffffffffffff,
              .data_fingerprint = 0x8000000000000001};
  job.epoch = 1;
  job.done = {{0, 2}, {4, 1}};
  job.best_epoch = 0;
  job.best_metric = 0.1234567890123;
  job.epochs_without_better = 1;
  JobRecord completing = job;
  completing.spec.job = "staged";
  completing.spec.staged = true;
  completing.stage = JobStage::kCompletion;
  completing.done.clear();
  manifest.jobs = {job, completing};
  manifest.steps = {{ClientId{1, 2, 255}, 77}};
  manifest.evicted = {ClientId{9}};
  manifest.stall_us = 1234;
  manifest.duration_us = 5678;
  return manifest;
}

TEST(ManifestTest, ComesBackWhole) {
  const Manifest in = Sample(7);
  const auto out = DecodeManifest(EncodeManifest(in));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->checkpoint_id, 7u);
  EXPECT_EQ(out->created_unix_ms, in.created_unix_ms);
  EXPECT_EQ(out->topology_version, 4u);
  ASSERT_EQ(out->parts.size(), 2u);
  EXPECT_EQ(out->parts[0].generation, 3u);
  EXPECT_EQ(out->parts[0].rows, 10);
  EXPECT_EQ(out->parts[0].files, 2);
  EXPECT_EQ(out->parts[0].bytes, 500);
  EXPECT_EQ(out->parts[0].files_checksum, 0xfedcba98);
  EXPECT_EQ(out->parts[0].base_checkpoint_id, 6u);
  EXPECT_EQ(out->parts[0].full_checkpoint_id, 1u);
  EXPECT_EQ(out->parts[0].increments, 3);
  EXPECT_EQ(out->parts[0].written_bytes, 40);
  EXPECT_EQ(out->restore_count, 2u);
  EXPECT_EQ(SummaryOf(*out).written_bytes(), 40);
  EXPECT_TRUE(IsIncrement(*out));
  EXPECT_EQ(out->parts[1].shard, ShardId(1));
  EXPECT_EQ(out->models, in.models);
  EXPECT_EQ(out->jobs, in.jobs);
  ASSERT_EQ(out->steps.size(), 1u);
  EXPECT_EQ(out->steps[0].client, in.steps[0].client);
  EXPECT_EQ(out->steps[0].step, 77);
  EXPECT_EQ(out->evicted, in.evicted);
  EXPECT_EQ(out->stall_us, 1234);
  EXPECT_EQ(out->duration_us, 5678);
}

TEST(ManifestTest, NoticesEveryFlippedByteAndEveryLength) {
  const std::string good = EncodeManifest(Sample(7));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x04;
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(bad).status())) << i;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(good.substr(0, size)).status())) << size;
  }
}

class ManifestStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "manifests.", getpid());
    std::filesystem::remove_all(directory_);
    Open();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void Open() {
    auto store = ManifestStore::Open(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::string directory_;
  std::unique_ptr<ManifestStore> store_;
};

TEST_F(ManifestStoreTest, KeepsWhatWasCommittedAndListsTheNewestFirst) {
  EXPECT_THAT(store_->List(), IsEmpty());
  for (const uint64_t checkpoint_id : {2, 11, 1})
    ASSERT_TRUE(store_->Commit(Sample(checkpoint_id)).ok());
  Open();
  EXPECT_THAT(store_->List(), ElementsAre(11, 2, 1));
  EXPECT_EQ(store_->Read(11)->checkpoint_id, 11u);
  ASSERT_TRUE(store_->Remove(11).ok());
  ASSERT_TRUE(store_->Remove(11).ok());
  EXPECT_THAT(store_->List(), ElementsAre(2, 1));
  EXPECT_TRUE(absl::IsNotFound(store_->Read(11).status()));
}

TEST_F(ManifestStoreTest, HalfAManifestIsNoCheckpoint) {
  std::ofstream(absl::StrCat(directory_, "/checkpoints/MANIFEST-00000000000000000005.new")) << "x";
  EXPECT_THAT(store_->List(), IsEmpty());
}

TEST_F(ManifestStoreTest, NoticesSwappedFiles) {
  ASSERT_TRUE(store_->Commit(Sample(1)).ok());
  ASSERT_TRUE(store_->Commit(Sample(2)).ok());
  const std::string path = directory_ + "/checkpoints/MANIFEST-0000000000000000000";
  std::filesystem::rename(path + "1", path + "2");
  const auto read = store_->Read(2);
  EXPECT_TRUE(absl::IsDataLoss(read.status()));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("files were swapped"));
}

TEST_F(ManifestStoreTest, CountsHowOftenTheClusterWasTakenBack) {
  EXPECT_EQ(store_->RestoreCount(), 0u);
  ASSERT_TRUE(store_->CommitRestoreCount(3).ok());
  Open();
  EXPECT_EQ(store_->RestoreCount(), 3u);
  std::ofstream(directory_ + "/checkpoints/RESTORE_COUNT")
      << "dslide restore count 1\n4\ncrc32c 00000000\n";
  EXPECT_TRUE(absl::IsDataLoss(ManifestStore::Open(directory_).status()));
}

TEST_F(ManifestStoreTest, RemembersClientsThatTheNextManifestHasToName) {
  const std::vector<ClientId> gone = {{1, 0xff}, {2}};
  EXPECT_THAT(store_->Evicted(), IsEmpty());
  ASSERT_TRUE(store_->KeepEvicted(gone).ok());
  Open();
  EXPECT_EQ(store_->Evicted(), gone);
  ASSERT_TRUE(store_->KeepEvicted({}).ok());
  Open();
  EXPECT_THAT(store_->Evicted(), IsEmpty());
  ASSERT_TRUE(store_->KeepEvicted(gone).ok());
  std::ofstream(directory_ + "/checkpoints/EVICTED", std::ios::app) << "x";
  EXPECT_TRUE(absl::IsDataLoss(ManifestStore::Open(directory_).status()));
}

TEST_F(ManifestStoreTest, ARestoreThatWasBegunIsRememberedUntilItIsDone) {
  EXPECT_EQ(store_->restore_mark().checkpoint_id(), std::nullopt);
  ASSERT_TRUE(store_->restore_mark().Want().ok());
  EXPECT_FALSE(store_->restore_mark().begun()) << "no shard has changed yet";
  Open();
  EXPECT_EQ(store_->restore_mark().checkpoint_id(), RestoreMark::kNewest);
  ASSERT_TRUE(store_->restore_mark().Begin(7).ok());
  ASSERT_TRUE(store_->restore_mark().Want().ok());
  Open();
  EXPECT_EQ(store_->restore_mark().checkpoint_id(), 7u)
      << "a wish does not change where shards are going";
  EXPECT_TRUE(store_->restore_mark().begun());
  ASSERT_TRUE(store_->restore_mark().Clear().ok());
  ASSERT_TRUE(store_->restore_mark().Clear().ok());
  Open();
  EXPECT_EQ(store_->restore_mark().checkpoint_id(), std::nullopt);
  std::ofstream(directory_ + "/checkpoints/RESTORING")
      << "dslide restoring 1\n4\ncrc32c 00000000\n";
  EXPECT_TRUE(absl::IsDataLoss(ManifestStore::Open(directory_).status()));
}

}  // namespace
}  // namespace dslide::coordinator
