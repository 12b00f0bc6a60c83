// What a command log makes of the sequencer: nothing is applied that was not appended, and nothing
// is told that could still be lost.

#include <gmock/gmock.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/log/logged_command.h"
#include "core/wire/row_codec.h"
#include "services/shard/sequencer/sequencer.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/sequencer/sequencer_fixture.h"

namespace dslide::shard {
namespace {

class SequencerLogTest : public LogDirectoryTest, protected SequencerParts {
 protected:
  void Make(bool answers_wait) {
    std::filesystem::create_directories(Path("log"));
    CommandLogOptions options;
    options.storage.sync_file = [this](int fd) {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&may_sync_));
      if (!syncs_fail_) return fdatasync(fd);
      errno = EIO;
      return -1;
    };
    ASSERT_TRUE(CommandLog::Create(Path("log"), options).ok());
    auto log = CommandLog::Open(Path("log"), options);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    sequencer_ =
        std::make_unique<Sequencer>(*core_, SequencerOptions(), shard_metrics_, SteadyClock(),
                                    SequencerLog{.log = log_.get(), .answers_wait = answers_wait});
    log_->Start({.on_durable = [this](uint64_t lsn) { sequencer_->OnDurable(lsn); },
                 .on_failed = [this](const absl::Status& why) { sequencer_->OnLogFailed(why); }});
  }
  void TearDown() override {
    LetSync(true);
    if (sequencer_ != nullptr) sequencer_->Stop();
    log_ = nullptr;
    sequencer_ = nullptr;
  }
  void LetSync(bool let, bool fail = false) {
    const absl::MutexLock lock(&mu_);
    may_sync_ = let;
    syncs_fail_ = fail;
  }

  // An answer that comes later.
  struct Pending {
    absl::Notification there;
    Answer answer;
    bool Within(absl::Duration time) { return there.WaitForNotificationWithTimeout(time); }
    const absl::Status& Wait() {
      there.WaitForNotification();
      return answer.reply->status;
    }
  };
  std::shared_ptr<Pending> Send(Command command, wire::LoggedCommand logged) {
    auto pending = std::make_shared<Pending>();  // the test's and the callback's
    Sequencer::Request request;
    request.command = std::move(command);
    request.logged = std::move(logged);
    request.done = [pending](Answer answer) {
      pending->answer = std::move(answer);
      pending->there.Notify();
    };
    EXPECT_TRUE(sequencer_->Submit(std::move(request)).ok());
    return pending;
  }
  std::shared_ptr<Pending> Scatter() {
    const ScatterCommand command = trainer_.Scatter(ScatterMode::kAdd);
    wire::LoggedCommand logged;
    for (const auto& message : wire::EncodeScatter(command, ActivationType::kF32)) {
      const auto bytes = std::make_shared<const std::string>(message.SerializeAsString());
      const absl::string_view piece = *bytes;
      wire::AddScatterMessage(absl::MakeConstSpan(&piece, 1), bytes, &logged);
    }
    return Send(command, std::move(logged));
  }
  std::shared_ptr<Pending> Read() { return Send(trainer_.Gather(), {}); }

  static constexpr absl::Duration kShort = absl::Milliseconds(50);

  absl::Mutex mu_;
  bool may_sync_ = true;
  bool syncs_fail_ = false;
  std::unique_ptr<Sequencer> sequencer_;
  std::unique_ptr<CommandLog> log_;
};

TEST_F(SequencerLogTest, AnswersWaitUntilWhatTheyShowIsDurable) {
  Make(/*answers_wait=*/true);
  EXPECT_TRUE(Read()->Wait().ok()) << "nothing is outstanding";
  LetSync(false);
  const auto update = Scatter();
  const auto read = Read();
  EXPECT_FALSE(update->Within(kShort));
  EXPECT_FALSE(read->Within(kShort)) << "a read would show the update";
  EXPECT_EQ(sequencer_->mutations(), 1) << "applied meanwhile: later commands need not wait";
  LetSync(true);
  EXPECT_TRUE(update->Wait().ok());
  EXPECT_TRUE(read->Wait().ok());
  EXPECT_EQ(log_->durable(), 1u);
}

TEST_F(SequencerLogTest, WithoutWaitingAnAppendIsEnough) {
  Make(/*answers_wait=*/false);
  LetSync(false);
  EXPECT_TRUE(Scatter()->Wait().ok());
  EXPECT_EQ(log_->appended(), 1u);
  EXPECT_EQ(log_->durable(), 0u);
}

TEST_F(SequencerLogTest, AFailedSyncConfirmsNothingAndEndsEverything) {
  Make(/*answers_wait=*/true);
  ASSERT_TRUE(Scatter()->Wait().ok());
  LetSync(false);
  const auto update = Scatter();
  const auto read = Read();
  EXPECT_FALSE(update->Within(kShort));
  LetSync(true, /*fail=*/true);
  EXPECT_EQ(ReasonOf(update->Wait()), reason::kLogFailed);
  EXPECT_TRUE(absl::IsUnavailable(update->Wait()));
  EXPECT_EQ(ReasonOf(read->Wait()), reason::kLogFailed);
  // The disk is well again. The state in memory has what may be lost: nobody sees it any more.
  LetSync(true);
  EXPECT_EQ(ReasonOf(Read()->Wait()), reason::kLogFailed);
  const int64_t applied = core_->mutations();
  EXPECT_EQ(ReasonOf(Scatter()->Wait()), reason::kLogFailed);
  EXPECT_EQ(core_->mutations(), applied);
}

TEST_F(SequencerLogTest, WhatCannotBeLoggedIsNotApplied) {
  Make(/*answers_wait=*/true);
  const uint64_t digest = core_->Digest();
  const auto unlogged = Send(trainer_.Scatter(ScatterMode::kAdd), {});
  EXPECT_TRUE(absl::IsInternal(unlogged->Wait())) << unlogged->Wait();
  sequencer_->Stop();
  EXPECT_EQ(core_->Digest(), digest);
  EXPECT_EQ(log_->appended(), 0u);
}

TEST_F(SequencerLogTest, ARestoredShardGreetsNobodyBeforeItIsOwned) {
  Make(/*answers_wait=*/true);
  sequencer_->CloseToClients(absl::UnavailableError("not yet"));
  EXPECT_TRUE(absl::IsUnavailable(Scatter()->Wait()));
  trainer_.TakeBack();
  EXPECT_TRUE(Read()->Wait().ok());
  EXPECT_EQ(log_->appended(), 0u);
  sequencer_->OpenToClients();
  EXPECT_TRUE(Scatter()->Wait().ok());
}

}  // namespace
}  // namespace dslide::shard
