// Cluster checkpoints of three shards that are none.

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/coordinator/checkpoints/cluster_checkpoints.h"
#include "tests/unit/services/coordinator/fake_shards.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {

class ClusterCheckpointsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "cluster_checkpoints.", getpid());
    std::filesystem::remove_all(directory_);
    Open();
    map_.topology_version = 1;
    for (int i = 0; i < 3; ++i) {
      map_.shards.push_back({.shard = ShardId(i),
                             .address = absl::StrCat("s", i),
                             .generation = 7,
                             .admin_address = ""});
    }
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Open(int64_t full_every = 8) {
    auto store = ManifestStore::Open(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    auto assets = AssetStore::Open(AssetFolders::OnDisk(directory_), {});
    ASSERT_TRUE(assets.ok()) << assets.status();
    checkpoints_.reset();
    assets_ = *std::move(assets);
    checkpoints_ = std::make_unique<ClusterCheckpoints>(
        ClusterCheckpointOptions{.barrier_timeout = absl::Seconds(10),
                                 .keep = 2,
                                 .full_every = full_every,
                                 .sleep = [this](absl::Duration pause) { clock_.Advance(pause); }},
        &shards_, assets_.get(), &clock_, *std::move(store));
  }
  absl::StatusOr<Manifest> Take() {
    return checkpoints_->Take(
        map_,
        [this](Manifest& manifest) {
          ++captured_;
          manifest.assets = assets_->Capture();
        },
        [this] { ++cut_; }, progress_);
  }
  auto Shard(int i) {
    return [this, i](const auto& use) { return shards_.With(absl::StrCat("s", i), use); };
  }
  // The checkpoint that this one of shard i was built on.
  uint64_t BaseOf(const absl::StatusOr<Manifest>& taken, size_t i = 0) {
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() ? taken->parts[i].base_checkpoint_id : UINT64_MAX;
  }
  std::vector<uint64_t> Committed() const {
    std::vector<uint64_t> checkpoint_ids;
    const auto manifests = checkpoints_->List();
    for (const Manifest& manifest : *manifests) checkpoint_ids.push_back(manifest.checkpoint_id);
    return checkpoint_ids;
  }

  FakeClock clock_;
  FakeShards shards_;
  WorkProgress progress_;
  ClusterMap map_;
  std::string directory_;
  std::unique_ptr<AssetStore> assets_;
  std::unique_ptr<ClusterCheckpoints> checkpoints_;
  int captured_ = 0;
  int cut_ = 0;
};

}  // namespace dslide::coordinator
