#include "services/coordinator/operations/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr OperationKind kVerify = OperationKind::kVerifyClusterCheckpoint;

class OperationsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({}); }
  void Open(const OperationLimits& limits) {
    operations_.reset();
    operations_ = std::make_unique<Operations>(limits, &clock_, &metrics_);
  }
  // One that runs until it is cancelled or let go.
  absl::StatusOr<OperationView> StartWaiting(const std::string& key) {
    return operations_->Start(
        {.kind = kVerify, .target = key, .key = key},
        [this](WorkProgress& progress) -> absl::StatusOr<OperationResult> {
          progress.Begin("reading", 3);
          progress.ShardDone();
          EXPECT_TRUE(Eventually([&] { return let_go_ || !progress.Check().ok(); }));
          if (!progress.Check().ok()) return progress.Check();
          return OperationResult(RestoredRows{7});
        });
  }
  absl::StatusOr<OperationView> Await(const std::string& id) {
    return operations_->Get(id, kPatience);
  }

  FakeClock clock_;
  Metrics metrics_;
  std::atomic<bool> let_go_ = false;
  std::unique_ptr<Operations> operations_;
};

TEST_F(OperationsTest, RunsAndIsAskedFor) {
  const auto started = StartWaiting("a");
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->status.operation_id.size(), 16u);
  EXPECT_FALSE(started->status.done);
  EXPECT_TRUE(Eventually([&] {
    const auto view = operations_->Get(started->status.operation_id, absl::ZeroDuration());
    return view.ok() && view->status.shards_done == 1;
  }));
  clock_.Advance(absl::Seconds(5));
  const auto running = operations_->Get(started->status.operation_id, absl::Milliseconds(1));
  EXPECT_FALSE(running->status.done);
  EXPECT_EQ(running->status.stage, "reading");
  EXPECT_EQ(running->status.shards, 3);
  EXPECT_EQ(running->status.elapsed, absl::Seconds(5));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("dslide_coordinator_operations_running"
                                           "{kind=\"verify-cluster-checkpoint\"} 1\n"));
  let_go_ = true;
  const auto ended = Await(started->status.operation_id);
  ASSERT_TRUE(ended.ok() && ended->status.done);
  EXPECT_TRUE(ended->error.ok()) << ended->error;
  EXPECT_EQ(std::get<RestoredRows>(ended->result).rows, 7);
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(Await(started->status.operation_id)->status.elapsed, absl::Seconds(5))
      << "until its end";
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("dslide_coordinator_operations_ended_total"
                        "{kind=\"verify-cluster-checkpoint\",result=\"ok\"} 1\n"));
}

TEST_F(OperationsTest, AWaitEndsWithTheOperation) {
  const auto started = StartWaiting("a");
  std::thread later([&] {
    absl::SleepFor(absl::Milliseconds(20));
    let_go_ = true;
  });
  const absl::Time before = absl::Now();
  EXPECT_TRUE(Await(started->status.operation_id)->status.done);
  EXPECT_LT(absl::Now() - before, kPatience / 2);
  later.join();
}

TEST_F(OperationsTest, AnEqualOneThatRunsIsAnswered) {
  const auto first = StartWaiting("a");
  EXPECT_EQ(StartWaiting("a")->status.operation_id, first->status.operation_id);
  EXPECT_NE(StartWaiting("b")->status.operation_id, first->status.operation_id);
  EXPECT_NE(StartWaiting("")->status.operation_id, StartWaiting("")->status.operation_id)
      << "without a key none is equal";
  const auto other = operations_->Start({.kind = OperationKind::kRestoreCheckpoint, .key = "a"},
                                        [](WorkProgress&) { return OperationResult(); });
  EXPECT_NE(other->status.operation_id, first->status.operation_id) << "of another kind";
  // One that was cancelled is on its way out, and one that has ended is no answer.
  ASSERT_TRUE(operations_->Cancel(first->status.operation_id).ok());
  const auto next = StartWaiting("a");
  EXPECT_NE(next->status.operation_id, first->status.operation_id);
  let_go_ = true;
  EXPECT_TRUE(Await(next->status.operation_id)->status.done);
  EXPECT_NE(StartWaiting("a")->status.operation_id, next->status.operation_id);
}

TEST_F(OperationsTest, IsCancelledWhileItRuns) {
  const auto started = StartWaiting("a");
  const auto told = operations_->Cancel(started->status.operation_id);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_TRUE(told->status.cancel_requested);
  const auto ended = Await(started->status.operation_id);
  EXPECT_TRUE(ended->status.done && ended->status.cancel_requested);
  EXPECT_TRUE(absl::IsCancelled(ended->error)) << ended->error;
  EXPECT_TRUE(operations_->Cancel(started->status.operation_id).ok()) << "once more";
  EXPECT_THAT(metrics_.Expose(), HasSubstr("result=\"cancelled\"} 1\n"));
}

TEST_F(OperationsTest, CancellingWhatHasEndedChangesNothing) {
  let_go_ = true;
  const auto started = StartWaiting("a");
  ASSERT_TRUE(Await(started->status.operation_id)->status.done);
  const auto told = operations_->Cancel(started->status.operation_id);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_TRUE(told->status.done);
  EXPECT_FALSE(told->status.cancel_requested);
  EXPECT_TRUE(told->error.ok());
}

TEST_F(OperationsTest, WhatIsTooLateToCancelEndsWell) {
  absl::Notification cancelled;
  const auto started =
      operations_->Start({.kind = kVerify}, [&](WorkProgress&) -> absl::StatusOr<OperationResult> {
        cancelled.WaitForNotification();
        return OperationResult(RestoredRows{1});
      });
  ASSERT_TRUE(operations_->Cancel(started->status.operation_id).ok());
  cancelled.Notify();
  const auto ended = Await(started->status.operation_id);
  EXPECT_TRUE(ended->error.ok()) << ended->error;
  EXPECT_TRUE(ended->status.cancel_requested);
}

TEST_F(OperationsTest, UnknownOnesAreNamed) {
  for (const absl::Status& status : {operations_->Get("12ab", absl::ZeroDuration()).status(),
                                     operations_->Cancel("12ab").status()}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(ReasonOf(status), "UNKNOWN_OPERATION");
    EXPECT_THAT(status.message(), HasSubstr("\"12ab\""));
    EXPECT_THAT(status.message(), HasSubstr("dslide checkpoint list"));
  }
}

TEST_F(OperationsTest, OnlySoManyRun) {
  Open({.running = 2});
  const auto first = StartWaiting("a");
  ASSERT_TRUE(StartWaiting("b").ok());
  const absl::Status refused = StartWaiting("c").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "TOO_MANY_OPERATIONS");
  EXPECT_THAT(refused.message(), HasSubstr("2 operations run"));
  EXPECT_GT(RetryAfterMs(refused), 0);
  EXPECT_EQ(StartWaiting("a")->status.operation_id, first->status.operation_id)
      << "an equal one is no further one";
  ASSERT_TRUE(operations_->Cancel(first->status.operation_id).ok());
  ASSERT_TRUE(Await(first->status.operation_id)->status.done);
  EXPECT_TRUE(StartWaiting("c").ok());
}

TEST_F(OperationsTest, TheOldestEndedOnesAreForgotten) {
  Open({.ended = 2});
  const auto runs = StartWaiting("runs");
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    const auto started = operations_->Start(
        {.kind = kVerify}, [](WorkProgress&) { return absl::DataLossError("gone"); });
    ASSERT_TRUE(started.ok()) << started.status();
    ids.push_back(started->status.operation_id);
    EXPECT_TRUE(absl::IsDataLoss(Await(ids.back())->error));
  }
  std::vector<std::string> listed;
  for (const OperationView& view : operations_->List()) listed.push_back(view.status.operation_id);
  EXPECT_EQ(listed, (std::vector<std::string>{ids[3], ids[2], runs->status.operation_id}))
      << "the newest first";
  EXPECT_TRUE(absl::IsNotFound(operations_->Get(ids[1], absl::ZeroDuration()).status()));
}

// Each holds a thread of the server.
TEST_F(OperationsTest, OnlySoManyWait) {
  Open({.waiting = 0});
  const auto started = StartWaiting("a");
  const absl::Time before = absl::Now();
  EXPECT_FALSE(Await(started->status.operation_id)->status.done);
  EXPECT_LT(absl::Now() - before, kPatience / 2);
}

TEST_F(OperationsTest, AStopEndsAllAndLetsNobodyWait) {
  const auto started = StartWaiting("a");
  std::thread waits([&] { EXPECT_TRUE(Await(started->status.operation_id).ok()); });
  operations_->Stop();
  waits.join();
  const absl::Status refused = StartWaiting("b").status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "SHUTTING_DOWN");
  EXPECT_TRUE(Eventually([&] { return Await(started->status.operation_id)->status.done; }));
  const auto ended = Await(started->status.operation_id);
  EXPECT_TRUE(absl::IsUnavailable(ended->error)) << ended->error;
  EXPECT_FALSE(ended->status.cancel_requested) << "nobody asked for it: the call may be repeated";
  operations_.reset();
}

// --- What works hold

TEST(WorkProgressTest, AnInterruptIsCalledOnceItIsCancelled) {
  WorkProgress progress;
  int calls = 0;
  {
    const WorkProgress::Interrupt interrupt(progress, [&] { ++calls; });
    EXPECT_EQ(calls, 0);
    progress.Cancel(absl::CancelledError("first"));
    progress.Cancel(absl::UnavailableError("second"));
    EXPECT_EQ(calls, 1);
  }
  const WorkProgress::Interrupt late(progress, [&] { calls += 10; });
  EXPECT_EQ(calls, 11) << "at once";
  EXPECT_EQ(progress.Check(), absl::CancelledError("first"));
}

}  // namespace
}  // namespace dslide::coordinator
