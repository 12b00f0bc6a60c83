#include "services/shard/image/checkpoint_images.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

// Files cannot be written meanwhile; names can be changed.
class NoRoom {
 public:
  NoRoom() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoRoom() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  NoRoom(const NoRoom&) = delete;
  NoRoom& operator=(const NoRoom&) = delete;

 private:
  rlimit before_{};
  void (*const handler_)(int);
};

class CheckpointImagesTest : public LogDirectoryTest {
 protected:
  using State = CheckpointProgress::State;

  // As after a start of the shard.
  void Open() {
    images_ = nullptr;
    auto opened = ImageStore::Open(Path("images"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    images_ = std::make_unique<CheckpointImages>(store_.get(), &clock_);
  }
  // Writes this shard's part and waits for it.
  void Write(uint64_t checkpoint_id) {
    absl::Notification over;
    const absl::Status begun = images_->Begin(checkpoint_id, ShardSnapshot::Take(0, *core_),
                                              [&](const std::shared_ptr<ShardSnapshot>& snapshot) {
                                                snapshot->Release();
                                                over.Notify();
                                              });
    ASSERT_TRUE(begun.ok()) << begun;
    over.WaitForNotification();
    while (images_->busy()) absl::SleepFor(absl::Milliseconds(1));
  }

  class SetClock final : public Clock {
   public:
    absl::Duration Now() const override { return now; }
    absl::Duration now;
  };
  SetClock clock_;
  SampleTrainer trainer_;
  std::unique_ptr<ShardCore> core_ = SampleCore(trainer_);
  std::unique_ptr<ImageStore> store_;
  std::unique_ptr<CheckpointImages> images_;
};

TEST_F(CheckpointImagesTest, AWrittenPartIsFoundByTheNextProcess) {
  Open();
  Write(5);
  const CheckpointProgress written = images_->Progress(5);
  EXPECT_EQ(written.state, State::kPrepared);
  Open();
  EXPECT_EQ(images_->Progress(5).state, State::kPrepared);
  EXPECT_EQ(images_->Progress(5).files.checksum, written.files.checksum);
  EXPECT_TRUE(images_->Verify(5).ok());
  EXPECT_EQ(images_->Progress(6).state, State::kUnknown);
}

// A restore need not read twice what was just read.
TEST_F(CheckpointImagesTest, WhatWasVerifiedIsKnownForAWhile) {
  Open();
  Write(5);
  const uint32_t checksum = images_->Progress(5).files.checksum;
  EXPECT_FALSE(images_->VerifiedLately(5, checksum)) << "written is not verified";
  ASSERT_TRUE(images_->Verify(5).ok());
  EXPECT_TRUE(images_->VerifiedLately(5, checksum));
  EXPECT_FALSE(images_->VerifiedLately(5, checksum + 1));
  clock_.now += absl::Minutes(10);
  EXPECT_FALSE(images_->VerifiedLately(5, checksum));
  ASSERT_TRUE(images_->Verify(5).ok());
  std::filesystem::remove(store_->PathOf(CheckpointLabel(5)) + "/state");
  EXPECT_TRUE(absl::IsDataLoss(images_->Verify(5).status()));
  EXPECT_FALSE(images_->VerifiedLately(5, checksum));
  Write(5);
  ASSERT_TRUE(images_->Verify(5).ok());
  ASSERT_TRUE(images_->Retain({}).ok());
  EXPECT_FALSE(images_->VerifiedLately(5, checksum));
}

// The coordinator died before it committed number 5, and its successor takes number 5 again. The
// shard dies before it has written: its part of the first cut must not pass for one of the second.
TEST_F(CheckpointImagesTest, APartOfAnEarlierCutOfThatNumberIsGoneOnceTheNextOneBegins) {
  Open();
  Write(5);
  Open();
  ASSERT_EQ(images_->Progress(5).state, State::kPrepared);
  {
    const NoRoom no_room;
    Write(5);
  }
  EXPECT_EQ(images_->Progress(5).state, State::kFailed);
  Open();
  EXPECT_EQ(images_->Progress(5).state, State::kUnknown);
  EXPECT_TRUE(images_->List().empty());
}

TEST_F(CheckpointImagesTest, RetainRemovesTheOthers) {
  Open();
  for (const uint64_t checkpoint_id : {1, 2, 3}) Write(checkpoint_id);
  EXPECT_EQ(*images_->Retain({2}), 2);
  EXPECT_EQ(images_->List(), std::vector<uint64_t>{2});
  EXPECT_EQ(images_->Progress(3).state, State::kUnknown);
  EXPECT_EQ(*images_->Retain({2}), 0);
}

}  // namespace
}  // namespace dslide::shard
