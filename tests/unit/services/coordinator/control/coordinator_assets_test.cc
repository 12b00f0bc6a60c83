// Assets of models as the coordinator keeps them: with the model, and in cluster checkpoints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/crc32c.h"
#include "core/base/reason.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "services/coordinator/control/coordinator.h"
#include "tests/unit/services/coordinator/coordinator_fixture.h"

namespace dslide::coordinator {
namespace {

using ::testing::IsEmpty;

class CoordinatorAssetsTest : public CoordinatorFixture {
 protected:
  // Makes one file the assets of a model; their checksum.
  uint32_t GiveAssets(const std::string& model, const std::string& text) {
    const std::string list =
        EncodeFileList({{"labels.txt", static_cast<int64_t>(text.size()), ExtendCrc32c(0, text)}});
    const AssetSetId id = {model, DecodeFileList("FILES", list)->checksum};
    EXPECT_TRUE(coordinator_->assets().Write(id, "labels.txt", 0, text).ok());
    EXPECT_TRUE(coordinator_->assets().Write(id, kFileListName, 0, list).ok());
    const auto created = coordinator_->CommitAssets(id, std::nullopt);
    EXPECT_TRUE(created.ok()) << created.status();
    return id.checksum;
  }
  uint32_t AssetsNow(const std::string& model) {
    const auto list = coordinator_->ListAssets(model);
    EXPECT_TRUE(list.ok()) << list.status();
    return list.ok() ? list->checksum : 0;
  }
};

TEST_F(CoordinatorAssetsTest, TheyComeAndGoWithTheModel) {
  RegisterBoth();
  EXPECT_EQ(ReasonOf(coordinator_->ListAssets("m").status()), reason::kUnknownModel);
  EXPECT_EQ(ReasonOf(coordinator_->CommitAssets({"m", 1}, std::nullopt).status()),
            reason::kUnknownModel);
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  EXPECT_THAT(coordinator_->ListAssets("m")->files, IsEmpty());
  const uint32_t given = GiveAssets("m", "red\n");
  EXPECT_EQ(AssetsNow("m"), given);
  ASSERT_TRUE(coordinator_->UnregisterModel("m", false, kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  EXPECT_THAT(coordinator_->ListAssets("m")->files, IsEmpty());
  EXPECT_NE(GiveAssets("m", "blue\n"), given);
}

TEST_F(CoordinatorAssetsTest, ARestoreBringsBackThoseOfTheCheckpoint) {
  StartWithModel();
  const uint32_t given = GiveAssets("m", "red\n");
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  ASSERT_TRUE(coordinator_->UnregisterModel("m", false, kTimeout).ok());
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("m"), kTimeout).ok());
  GiveAssets("m", "blue\n");
  Restart(/*with_store=*/true);
  RegisterBoth();
  const auto restored = coordinator_->checkpoints().Restore(0, progress_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(AssetsNow("m"), given);
}

TEST_F(CoordinatorAssetsTest, ADamagedSetIsFoundByVerifying) {
  StartWithModel();
  GiveAssets("m", "red\n");
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  ASSERT_TRUE(coordinator_->checkpoints().Verify(0, progress_).ok());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data_dir_ + "/assets")) {
    if (entry.path().filename() == "labels.txt") std::filesystem::resize_file(entry.path(), 2);
  }
  EXPECT_EQ(coordinator_->checkpoints().Verify(0, progress_).status().code(),
            absl::StatusCode::kDataLoss);
}

// The checkpoint of an earlier version says nothing of them.
TEST_F(CoordinatorAssetsTest, WithoutAWordInTheCheckpointModelsKeepTheirs) {
  StartWithModel();
  auto manifests = ManifestStore::OpenExisting(data_dir_);
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  Manifest manifest = *(*manifests)->Read(1);
  manifest.assets = std::nullopt;
  ASSERT_TRUE((*manifests)->Commit(manifest).ok());
  const uint32_t given = GiveAssets("m", "red\n");
  ASSERT_TRUE(coordinator_->RegisterModel(TestModel("later"), kTimeout).ok());
  GiveAssets("later", "blue\n");
  ASSERT_TRUE(coordinator_->checkpoints().Restore(1, progress_).ok());
  EXPECT_EQ(AssetsNow("m"), given);
  EXPECT_EQ(ReasonOf(coordinator_->ListAssets("later").status()), reason::kUnknownModel);
}

}  // namespace
}  // namespace dslide::coordinator
