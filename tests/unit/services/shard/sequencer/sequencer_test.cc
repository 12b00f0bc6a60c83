#include "services/shard/sequencer/sequencer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "tests/unit/services/shard/sequencer/sequencer_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

class SequencerTest : public ::testing::Test, protected SequencerParts {
 protected:
  void Make(SequencerOptions options = {}) {
    sequencer_ = std::make_unique<Sequencer>(*core_, options, shard_metrics_, SteadyClock());
  }
  // Keeps the sequencer busy until Release().
  void Block() {
    absl::Notification entered;
    ASSERT_TRUE(sequencer_
                    ->SubmitTask([&entered, this](ShardCore&) {
                      entered.Notify();
                      released_.WaitForNotification();
                    })
                    .ok());
    entered.WaitForNotification();
  }
  void Release() { released_.Notify(); }

  static Sequencer::Request Describe(std::function<void(Answer)> done, int64_t bytes = 0) {
    Sequencer::Request request;
    request.command = DescribeModelCommand{.model = "m"};
    request.bytes = bytes;
    request.done = std::move(done);
    return request;
  }

  absl::Notification released_;
  std::unique_ptr<Sequencer> sequencer_;
};

TEST_F(SequencerTest, AnswersComeInTheOrderOfTheCommands) {
  Make();
  constexpr int kCount = 2000;
  std::vector<int> order;
  absl::BlockingCounter left(kCount);
  for (int i = 0; i < kCount; ++i) {
    ScatterCommand command = trainer_.Scatter(ScatterMode::kAdd);
    Sequencer::Request request;
    request.command = command;
    request.done = [&, i](Answer answer) {
      EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
      order.push_back(i);  // one thread at a time: no lock
      left.DecrementCount();
    };
    while (!sequencer_->Submit(request).ok()) std::this_thread::yield();
    if (i % 7 == 0) std::this_thread::yield();
  }
  left.Wait();
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(order[i], i);
  EXPECT_EQ(sequencer_->mutations(), kCount);
}

TEST_F(SequencerTest, AnIdleOneWorksOnTheCallersThread) {
  Make();
  for (int attempt = 0;; ++attempt) {
    std::thread::id thread;
    absl::Notification done;
    Sequencer::Request request = Describe([&](const Answer& answer) {
      EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
      thread = std::this_thread::get_id();
      done.Notify();
    });
    request.run_here = true;
    ASSERT_TRUE(sequencer_->Submit(std::move(request)).ok());
    done.WaitForNotification();
    if (thread == std::this_thread::get_id()) break;
    // The sequencer's own thread may not have come to rest yet.
    ASSERT_LT(attempt, 100000);
    std::this_thread::yield();
  }
}

TEST_F(SequencerTest, ABusyOneQueuesWhatMightRunHere) {
  Make();
  Block();
  std::vector<std::thread::id> threads;
  absl::BlockingCounter left(2);
  for (int i = 0; i < 2; ++i) {
    Sequencer::Request request = Describe([&](const Answer&) {
      threads.push_back(std::this_thread::get_id());
      left.DecrementCount();
    });
    request.run_here = i == 1;  // behind one that waits
    ASSERT_TRUE(sequencer_->Submit(std::move(request)).ok());
  }
  EXPECT_TRUE(threads.empty());
  Release();
  left.Wait();
  for (const std::thread::id thread : threads) EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(SequencerTest, CallersThreadsAndItsOwnNeverWorkAtOnce) {
  Make();
  constexpr int kCallers = 4;
  constexpr int kCount = 500;
  int64_t answers = 0;  // without a lock: one thread at a time
  std::vector<std::thread> callers;
  absl::BlockingCounter left(kCallers * kCount);
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kCount; ++i) {
        Sequencer::Request request = Describe([&](const Answer&) {
          ++answers;
          left.DecrementCount();
        });
        request.run_here = (i + caller) % 3 != 0;
        while (!sequencer_->Submit(request).ok()) std::this_thread::yield();
      }
    });
  }
  left.Wait();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answers, kCallers * kCount);
  sequencer_->Stop();
  Sequencer::Request late = Describe([](const Answer&) { FAIL() << "answered after Stop()"; });
  late.run_here = true;
  EXPECT_EQ(ReasonOf(sequencer_->Submit(std::move(late))), reason::kShuttingDown);
}

TEST_F(SequencerTest, AFullQueueRefusesAndSaysHowLongToWait) {
  Make({.queue_bytes = 100, .queue_commands = 5, .control_commands = 2});
  Block();
  std::atomic<int> answered = 0;
  const auto count = [&](Answer) { ++answered; };
  // By bytes; a request of any size may enter an empty queue.
  EXPECT_TRUE(sequencer_->Submit(Describe(count, 500)).ok());
  const absl::Status full = sequencer_->Submit(Describe(count, 1));
  EXPECT_EQ(ReasonOf(full), reason::kQueueFull);
  EXPECT_GT(RetryAfterMs(full), 0);
  // Control requests have places of their own, by count.
  int control = 0;
  for (int i = 0; i < 20; ++i) {
    Sequencer::Request request = Describe(count, 0);
    request.control = true;
    control += sequencer_->Submit(std::move(request)).ok() ? 1 : 0;
  }
  EXPECT_EQ(control, 6);
  Release();
  sequencer_->Stop();
  EXPECT_EQ(answered, 7);
}

class HandClock final : public Clock {
 public:
  absl::Duration Now() const override { return absl::Milliseconds(now_ms.load()); }
  std::atomic<int64_t> now_ms = 0;
};

TEST_F(SequencerTest, WhoseTurnWouldComeTooLateIsRefusedAtOnce) {
  HandClock clock;
  sequencer_ = std::make_unique<Sequencer>(*core_, SequencerOptions(), shard_metrics_, clock);
  Block();
  int answered = 0;
  const auto submit = [&](absl::Duration patience, bool control = false) {
    Sequencer::Request request = Describe([&](Answer) { ++answered; });
    request.patience = patience;
    request.control = control;
    return sequencer_->Submit(std::move(request));
  };
  EXPECT_TRUE(submit(absl::Milliseconds(1)).ok());  // nobody waits yet
  clock.now_ms = 500;
  const absl::Status late = submit(absl::Milliseconds(999));
  EXPECT_EQ(ReasonOf(late), reason::kQueueFull) << late;
  EXPECT_GT(RetryAfterMs(late), 0);
  EXPECT_TRUE(submit(absl::Milliseconds(1000)).ok());
  EXPECT_TRUE(submit(absl::InfiniteDuration()).ok());
  EXPECT_TRUE(submit(absl::Milliseconds(1), /*control=*/true).ok());
  Release();
  sequencer_->Stop();
  EXPECT_EQ(answered, 4);
}

TEST_F(SequencerTest, WhatWaitsIsExpectedToTakeWhatItsKindTook) {
  HandClock clock;
  sequencer_ = std::make_unique<Sequencer>(*core_, SequencerOptions(), shard_metrics_, clock);
  absl::BlockingCounter left(2);
  for (int i = 0; i < 2; ++i) {
    Sequencer::Request slow = Describe([&](Answer) { left.DecrementCount(); });
    slow.admit = [&] {
      clock.now_ms += 100;
      return absl::OkStatus();
    };
    ASSERT_TRUE(sequencer_->Submit(std::move(slow)).ok());
  }
  left.Wait();
  Block();
  const auto submit = [&](absl::Duration patience) {
    Sequencer::Request request = Describe([](Answer) {});
    request.patience = patience;
    return sequencer_->Submit(std::move(request));
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(submit(absl::Seconds(10)).ok());
  EXPECT_EQ(ReasonOf(submit(absl::Milliseconds(999))), reason::kQueueFull);
  EXPECT_TRUE(submit(absl::Milliseconds(1000)).ok());
  Release();
  sequencer_->Stop();
}

TEST_F(SequencerTest, ACallerThatGaveUpIsNotServed) {
  Make();
  const uint64_t digest = core_->Digest();
  Block();
  std::atomic<bool> gone = false;
  Sequencer::Request request;
  request.command = trainer_.Scatter(ScatterMode::kAdd);
  request.admit = [&] { return gone ? absl::CancelledError("gone") : absl::OkStatus(); };
  absl::Status status;
  request.done = [&](Answer answer) { status = answer.reply->status; };
  ASSERT_TRUE(sequencer_->Submit(std::move(request)).ok());
  gone = true;
  Release();
  sequencer_->Stop();
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(core_->Digest(), digest);
}

TEST_F(SequencerTest, AFencedShardAppliesNothingMore) {
  Make();
  const uint64_t digest = core_->Digest();
  Block();
  absl::Status status;
  Sequencer::Request request;
  request.command = trainer_.Scatter(ScatterMode::kAdd);
  request.done = [&](Answer answer) { status = answer.reply->status; };
  ASSERT_TRUE(sequencer_->Submit(std::move(request)).ok());
  sequencer_->Fence(absl::FailedPreconditionError("replaced"));
  Release();
  sequencer_->Stop();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(core_->Digest(), digest);
}

TEST_F(SequencerTest, StopAnswersWhatWaitsAndRefusesWhatComes) {
  Make();
  Block();
  int answered = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(sequencer_->Submit(Describe([&](Answer) { ++answered; })).ok());
  }
  std::thread stopper([&] { sequencer_->Stop(); });
  Release();
  stopper.join();
  EXPECT_EQ(answered, 50);
  EXPECT_EQ(ReasonOf(sequencer_->Submit(Describe([](Answer) {}))), reason::kShuttingDown);
  EXPECT_EQ(ReasonOf(sequencer_->RunTask([](ShardCore&) { return absl::OkStatus(); })),
            reason::kShuttingDown);
}

TEST_F(SequencerTest, WhatWaitsForACutGoesOnWhenTheShardIsAboutToStop) {
  Make();
  const auto freeze = [&](uint64_t checkpoint_id) {
    bool frozen = false;
    EXPECT_TRUE(sequencer_
                    ->RunTask([&](ShardCore&) {
                      sequencer_->Freeze(checkpoint_id, absl::Hours(1));
                      frozen = sequencer_->gate().frozen();
                      return absl::OkStatus();
                    })
                    .ok());
    return frozen;
  };
  ASSERT_TRUE(freeze(1));
  absl::Notification answered;
  absl::Status status = absl::UnknownError("not answered");
  Sequencer::Request request;
  request.command = trainer_.Step(trainer_.DenseScatter(), 1);
  request.done = [&](Answer answer) {
    status = answer.reply->status;
    answered.Notify();
  };
  ASSERT_TRUE(sequencer_->Submit(std::move(request)).ok());
  ASSERT_TRUE(sequencer_->RunTask([](ShardCore&) { return absl::OkStatus(); }).ok());
  ASSERT_EQ(sequencer_->waiting(), 1);
  sequencer_->DisableGate();
  answered.WaitForNotification();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(freeze(2));  // nothing is held any more
}

TEST_F(SequencerTest, MeasuresForHowLongAFreezeMakesRequestsWait) {
  HandClock clock;
  sequencer_ = std::make_unique<Sequencer>(*core_, SequencerOptions{.threads = false},
                                           shard_metrics_, clock);
  const auto freeze = [&](uint64_t checkpoint_id) {
    ASSERT_TRUE(sequencer_
                    ->SubmitTask([=, this](ShardCore&) {
                      sequencer_->Freeze(checkpoint_id, absl::Hours(1));
                    })
                    .ok());
    sequencer_->RunOnce();
  };
  // Asked by a task that takes 3 ms.
  const auto stall = [&] {
    absl::Duration stall;
    const auto ask = [&](ShardCore&) {
      clock.now_ms += 3;
      stall = sequencer_->Stall();
    };
    EXPECT_TRUE(sequencer_->SubmitTask(ask, QueuePlace::kFront).ok());
    sequencer_->RunOnce();
    return stall;
  };
  freeze(1);
  clock.now_ms = 50;
  EXPECT_EQ(stall(), absl::ZeroDuration()) << "nobody wants anything";
  Sequencer::Request change;
  change.command = trainer_.Step(trainer_.DenseScatter(), 1);
  bool changed = false;
  change.done = [&](const Answer&) { changed = true; };
  ASSERT_TRUE(sequencer_->Submit(std::move(change)).ok());
  EXPECT_EQ(stall(), absl::Milliseconds(3)) << "it waits for the task";
  sequencer_->RunOnce();
  clock.now_ms += 20;
  EXPECT_EQ(stall(), absl::Milliseconds(23)) << "and at the gate";
  sequencer_->gate().Open();
  stall();
  EXPECT_TRUE(changed);
  clock.now_ms += 100;
  EXPECT_EQ(stall(), absl::Milliseconds(26)) << "and then no longer";
  freeze(2);
  EXPECT_EQ(stall(), absl::ZeroDuration());
}

TEST_F(SequencerTest, TasksRunInTheirTurn) {
  Make();
  // Its answer may come after that of the task: only the order of the work is fixed.
  ASSERT_TRUE(sequencer_->Submit(Describe([](Answer) {})).ok());
  int64_t commands = 0;
  ASSERT_TRUE(sequencer_
                  ->RunTask([&](ShardCore& core) {
                    commands = core.commands();
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(commands, 4);  // ownership, create, hello, describe
}

TEST_F(SequencerTest, UrgentTasksOvertakeWhatWaitsButNotEachOther) {
  Make();
  Block();
  const int64_t before = core_->commands();
  std::vector<std::string> order;
  const auto note = [&](const std::string& name) {
    return [&order, name, before](ShardCore& core) {
      order.push_back(absl::StrCat(name, " after ", core.commands() - before));
    };
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(sequencer_->Submit(Describe([](Answer) {})).ok());
  ASSERT_TRUE(sequencer_->SubmitTask(note("task")).ok());
  ASSERT_TRUE(sequencer_->SubmitTask(note("first"), QueuePlace::kFront).ok());
  ASSERT_TRUE(sequencer_->SubmitTask(note("second"), QueuePlace::kFront).ok());
  Release();
  sequencer_->Stop();
  EXPECT_THAT(order, ::testing::ElementsAre("first after 0", "second after 0", "task after 3"));
}

TEST_F(SequencerTest, ThePageShowsWhatHappened) {
  Make();
  absl::BlockingCounter left(3);
  const auto submit = [&](Command command) {
    Sequencer::Request request;
    request.command = std::move(command);
    request.done = [&](Answer) { left.DecrementCount(); };
    ASSERT_TRUE(sequencer_->Submit(std::move(request)).ok());
  };
  const ScatterCommand good = trainer_.Scatter(ScatterMode::kGradient);
  submit(good);
  submit(good);
  ScatterCommand bad = trainer_.Scatter(ScatterMode::kGradient);
  bad.rows.values[0] = 1e9f;
  submit(bad);
  left.Wait();
  sequencer_->Stop();
  const std::string page = metrics_.Expose();
  EXPECT_THAT(page, HasSubstr("dslide_shard_repeated_mutations_total 1"));
  EXPECT_THAT(page, HasSubstr("dslide_shard_refused_requests_total{reason=\"OVER_MAGNITUDE\"} 1"));
  // 75 of the head's 150 rows, 8 numbers and a bias.
  const int64_t rows = core_->FindModel("m")->tables()[2].store().num_rows();
  EXPECT_THAT(page, HasSubstr("dslide_shard_dense_equivalent_bytes_total{direction=\"sent\"} " +
                              std::to_string(rows * 9 * 4)));
  EXPECT_THAT(page, HasSubstr("dslide_shard_apply_seconds_count{command=\"scatter\"} 3"));
}

}  // namespace
}  // namespace dslide::shard
