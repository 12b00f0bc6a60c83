#include "services/shard/image/image_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "services/common/files/durable_files.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/core_state.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/state/shard_samples.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImageStoreTest : public LogDirectoryTest {
 protected:
  void SetUp() override {
    LogDirectoryTest::SetUp();
    Open();
  }
  // As a start of a shard does.
  void Open() {
    auto opened = ImageStore::Open(Path("images"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  // An image of one file and its list.
  static absl::Status WriteContent(const std::string& directory, const std::string& content) {
    fs::create_directories(directory);
    Write(directory + "/state", content);
    return WriteFileList(directory).status();
  }
  absl::Status Publish(const std::string& label, const std::string& content) {
    return store_->Publish(
        label, [&](const std::string& directory) { return WriteContent(directory, content); });
  }
  std::string Content(const std::string& label) const {
    return Read(store_->PathOf(label) + "/state");
  }

  std::unique_ptr<ImageStore> store_;
};

TEST_F(ImageStoreTest, WhatIsPublishedIsThereAndWhole) {
  ASSERT_TRUE(Publish("b", "two").ok());
  ASSERT_TRUE(Publish("a", "one").ok());
  EXPECT_THAT(store_->Labels(), ElementsAre("a", "b"));
  EXPECT_TRUE(store_->Verify("a").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Verify("c").status()));
  Write(store_->PathOf("a") + "/state", "on3");
  EXPECT_THAT(std::string(store_->Verify("a").status().message()),
              HasSubstr("a/state does not have its checksum"));
  ASSERT_TRUE(store_->Remove("a").ok());
  ASSERT_TRUE(store_->Remove("a").ok()) << "fine when there is none";
  EXPECT_THAT(store_->Labels(), ElementsAre("b"));
}

TEST_F(ImageStoreTest, ANewOneTakesThePlaceOfAnEarlierOne) {
  ASSERT_TRUE(Publish("a", "one").ok());
  ASSERT_TRUE(Publish("a", "two").ok());
  EXPECT_EQ(Content("a"), "two");
  const absl::Status failed = store_->Publish("a", [](const std::string& directory) {
    EXPECT_TRUE(WriteContent(directory, "half").ok());
    return absl::UnavailableError("the disk is full");
  });
  EXPECT_EQ(failed, absl::UnavailableError("the disk is full"));
  EXPECT_EQ(Content("a"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(Path("images")), {}), 1) << "nothing is left over";
}

TEST_F(ImageStoreTest, AStartSweepsWhatACrashHasLeft) {
  ASSERT_TRUE(Publish("replaced", "new").ok());
  ASSERT_TRUE(Publish("moved", "old").ok());
  fs::rename(store_->PathOf("moved"), Path("images/.old-moved"));
  ASSERT_TRUE(WriteContent(Path("images/.old-replaced"), "old").ok());
  ASSERT_TRUE(WriteContent(Path("images/.tmp-never"), "half").ok());
  ASSERT_TRUE(WriteContent(store_->ArrivalPathOf("never"), "half").ok());
  EXPECT_THAT(ImageStore::LabelsIn(Path("images")), ElementsAre("moved", "replaced"));
  Open();
  EXPECT_THAT(store_->Labels(), ElementsAre("moved", "replaced"));
  EXPECT_EQ(Content("moved"), "old");
  EXPECT_EQ(Content("replaced"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(Path("images")), {}), 2);
  EXPECT_THAT(ImageStore::LabelsIn("/nonexistent"), IsEmpty());
}

TEST_F(ImageStoreTest, OnlyWhatTheListPinsIsAdopted) {
  ASSERT_TRUE(Publish("a", "damaged").ok());
  ASSERT_TRUE(WriteContent(store_->ArrivalPathOf("a"), "sent").ok());
  const auto files = VerifyFileList(store_->ArrivalPathOf("a"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_TRUE(absl::IsDataLoss(store_->Adopt("a", files->checksum + 1).status()));
  EXPECT_FALSE(fs::exists(store_->ArrivalPathOf("a"))) << "out of the way of the next attempt";
  EXPECT_EQ(Content("a"), "damaged");
  ASSERT_TRUE(WriteContent(store_->ArrivalPathOf("a"), "sent").ok());
  EXPECT_TRUE(store_->Adopt("a", files->checksum).ok());
  EXPECT_EQ(Content("a"), "sent");
}

TEST_F(ImageStoreTest, AnUnwritableDirectoryIsNamed) {
  Write(Path("file"), "x");
  const auto store = ImageStore::Open(Path("file/below"));
  EXPECT_TRUE(absl::IsUnavailable(store.status())) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("below"));
}

// What a clean stop keeps besides the rows.
class StoppedImageTest : public ImageStoreTest {
 protected:
  absl::Status Stop(const ShardCore& core) {
    return store_->Publish(kStoppedLabel, [&](const std::string& directory) {
      return WriteImageOf(directory, PartsWithoutRows(core), nullptr).status();
    });
  }
  absl::Status Load(ShardCore& core) {
    return LoadImage(store_->PathOf(kStoppedLabel), core).status();
  }
};

// Without rows any two cores are alike.
TEST_F(StoppedImageTest, BringsBackClientsWithTheirAnswers) {
  ShardCore stopped({});
  const ClientId ann = {1};
  const ClientId bob = {2};
  stopped.Apply(HelloCommand{.job = "job", .client = ann, .acknowledged_sequence = 0});
  stopped.Apply(HelloCommand{.job = "job", .client = bob, .acknowledged_sequence = 3});
  stopped.Apply(CloseClientCommand{.job = "job", .client = ClientId{9}});
  ASSERT_TRUE(Stop(stopped).ok());
  ShardCore started({});
  ASSERT_TRUE(Load(started).ok());
  EXPECT_EQ(started.clients().open_clients(), 2);
  EXPECT_FALSE(started.clients().clients().at(ann).lost);
  EXPECT_TRUE(started.clients().clients().at(bob).lost);
  EXPECT_EQ(started.clients().closed().size(), 1u);
  EXPECT_EQ(EncodeCoreState(started), EncodeCoreState(stopped));
}

TEST_F(StoppedImageTest, NoticesEveryFlippedByteAndEveryLength) {
  ShardCore stopped({});
  stopped.Apply(HelloCommand{.job = "job", .client = ClientId{1}, .acknowledged_sequence = 0});
  ASSERT_TRUE(Stop(stopped).ok());
  const std::string path = store_->PathOf(kStoppedLabel) + "/state";
  const std::string good = Read(path);
  const auto expect_refusal = [&](const std::string& bad, size_t at) {
    Write(path, bad);
    ShardCore core({});
    EXPECT_TRUE(absl::IsDataLoss(Load(core))) << at;
  };
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x20;
    expect_refusal(bad, i);
  }
  for (size_t size = 0; size < good.size(); ++size) expect_refusal(good.substr(0, size), size);
}

TEST_F(StoppedImageTest, BelongsToItsRows) {
  ShardCore with_rows(SampleOptions());
  ASSERT_TRUE(with_rows.Apply(SampleCreate()).reply->status.ok());
  ASSERT_TRUE(Stop(with_rows).ok());
  ShardCore without({});
  const absl::Status loaded = Load(without);
  EXPECT_TRUE(absl::IsDataLoss(loaded)) << loaded;
  EXPECT_THAT(std::string(loaded.message()), HasSubstr("is of other rows"));
}

}  // namespace
}  // namespace dslide::shard
