#include "services/coordinator/jobs/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/reason.h"
#include "tests/unit/services/coordinator/jobs/job_fixture.h"

namespace dslide::coordinator {
namespace {

using JobTest = JobFixture;

TEST_F(JobTest, ChunksComeInOrderAndTheLastIsShort) {
  Job job(Spec(25, 10, 1), timing_);
  const ChunkWork first = AskChunk(job, 1);
  EXPECT_EQ(first, (ChunkWork{1, 0, 0, 10}));
  const ChunkWork second = AskChunk(job, 2);
  EXPECT_EQ(second, (ChunkWork{2, 0, 10, 10}));
  const ChunkWork third = AskChunk(job, 1, {Done(first)});
  EXPECT_EQ(third, (ChunkWork{3, 0, 20, 5}));
  EXPECT_EQ(job.Status(now_).samples_done, 10);
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 1, {Done(third)})));
  EXPECT_TRUE(std::holds_alternative<NoMoreWork>(Ask(job, 2, {Done(second)})));
  EXPECT_TRUE(job.Status(now_).finished);
}

TEST_F(JobTest, ALeaseWhoseAnswerWasLostIsGivenAgain) {
  Job job(Spec(30, 10, 1), timing_);
  const ChunkWork first = AskChunk(job, 1);
  EXPECT_EQ(AskChunk(job, 1), first);
  const ChunkWork second = AskChunk(job, 1, {}, {first.lease});
  EXPECT_EQ(second.first, 10);
  EXPECT_EQ(AskChunk(job, 1, {}, {first.lease}), second);
}

TEST_F(JobTest, ARepeatedReportCountsOnce) {
  Job job(Spec(30, 10, 1), timing_);
  const ChunkWork first = AskChunk(job, 1);
  const ChunkWork second = AskChunk(job, 1, {Done(first)});
  EXPECT_EQ(AskChunk(job, 1, {Done(first)}), second);
  EXPECT_EQ(job.Status(now_).samples_done, 10);
  EXPECT_EQ(job.counters().chunks_done, 1);
}

TEST_F(JobTest, WhatALostTrainerHeldIsLeasedAgainAfterTheTimeout) {
  Job job(Spec(20, 10, 1), timing_);
  const ChunkWork lost = AskChunk(job, 1);
  const ChunkWork own = AskChunk(job, 2);
  now_ += absl::Seconds(9);
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 2, {}, {own.lease})));
  now_ += absl::Seconds(1);
  const ChunkWork again = AskChunk(job, 2, {}, {own.lease});
  EXPECT_EQ(again.first, lost.first);
  EXPECT_NE(again.lease, lost.lease);
  EXPECT_EQ(job.counters().leases_expired, 1);
  // The lost trainer wakes up: its chunk is somebody else's now and is not counted through it.
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 1, {Done(lost)})));
  EXPECT_EQ(job.Status(now_).samples_done, 0);
  EXPECT_EQ(job.counters().late_reports, 1);
  EXPECT_TRUE(std::holds_alternative<NoMoreWork>(Ask(job, 2, {Done(own), Done(again)})));
}

TEST_F(JobTest, ASlowTrainersReportCountsWhileNobodyElseHasTheChunk) {
  Job job(Spec(20, 10, 1), timing_);
  const ChunkWork slow = AskChunk(job, 1);
  now_ += absl::Seconds(60);
  Ask(job, 2, {}, {}, /*want_work=*/false);  // takes the chunk back, without taking it
  EXPECT_EQ(job.counters().leases_expired, 1);
  const ChunkWork next = AskChunk(job, 1, {Done(slow)});
  EXPECT_EQ(next.first, 10);
  EXPECT_EQ(job.Status(now_).samples_done, 10);
}

TEST_F(JobTest, ASlowTrainerKeepsItsLeaseByRenewingIt) {
  Job job(Spec(20, 10, 1), timing_);
  const ChunkWork slow = AskChunk(job, 1);
  now_ += absl::Seconds(60);
  Ask(job, 2, {}, {}, /*want_work=*/false);
  Ask(job, 1, {}, {slow.lease}, /*want_work=*/false);
  const ChunkWork other = AskChunk(job, 2);
  EXPECT_EQ(other.first, 10) << "the slow trainer's chunk was given away";
  for (int i = 0; i < 10; ++i) {
    now_ += absl::Seconds(9);
    Ask(job, 1, {}, {slow.lease}, false);
    Ask(job, 2, {}, {other.lease}, false);
  }
  EXPECT_EQ(job.leases(), 2);
}

TEST_F(JobTest, LeavingReturnsLeasesAtOnce) {
  Job job(Spec(20, 10, 1), timing_);
  const ChunkWork left = AskChunk(job, 1);
  EXPECT_EQ(job.Status(now_).trainers, 1);
  job.Leave(Client(1), now_);
  EXPECT_EQ(job.Status(now_).trainers, 0);
  EXPECT_EQ(AskChunk(job, 2).first, left.first);
  job.Leave(Client(9), now_);  // unknown: nothing happens
}

TEST_F(JobTest, OneTrainerEvaluatesAFinishedEpochAndTheOthersWait) {
  JobSpec spec = Spec(10, 10, 2);
  spec.evaluate = true;
  Job job(spec, timing_);
  const ChunkWork chunk = AskChunk(job, 1);
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 2)));
  const Work work = Ask(job, 1, {Done(chunk)});
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(work));
  const auto evaluation = std::get<EvaluationWork>(work);
  EXPECT_EQ(evaluation.epoch, 0);
  EXPECT_EQ(evaluation.metric_to_beat, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 2)));
  // Lost on the way: the same evaluation again.
  const Work again = Ask(job, 1);
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(again));
  EXPECT_EQ(std::get<EvaluationWork>(again).lease, evaluation.lease);

  const ChunkWork next = AskChunk(job, 1, {{.lease = evaluation.lease, .metric = 0.25}});
  EXPECT_EQ(next.epoch, 1);
  const Work second = Ask(job, 1, {Done(next)});
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(second));
  EXPECT_EQ(std::get<EvaluationWork>(second).metric_to_beat, 0.25);
  const Work last = Ask(job, 1, {{.lease = std::get<EvaluationWork>(second).lease, .metric = 0.5}});
  ASSERT_TRUE(std::holds_alternative<StageWork>(last));
  const auto completion = std::get<StageWork>(last);
  EXPECT_EQ(completion.stage, JobStage::kCompletion);
  EXPECT_EQ(completion.best_epoch, 1);
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 2)));
  const Work end = Ask(job, 1, {{.lease = completion.lease, .best_restored = true}});
  ASSERT_TRUE(std::holds_alternative<NoMoreWork>(end));
  EXPECT_EQ(std::get<NoMoreWork>(end).best_epoch, 1);
  EXPECT_EQ(std::get<NoMoreWork>(end).best_metric, 0.5);
  EXPECT_TRUE(std::get<NoMoreWork>(end).best_restored);
  const Work joined = Ask(job, 3);  // long after, say
  ASSERT_TRUE(std::holds_alternative<NoMoreWork>(joined));
  EXPECT_TRUE(std::get<NoMoreWork>(joined).best_restored);
}

TEST_F(JobTest, ACancelledJobHasNoWorkAndCountsNothing) {
  JobSpec spec = Spec(30, 10, 2);
  spec.evaluate = true;
  Job job(spec, timing_);
  const ChunkWork chunk = AskChunk(job, 1);
  job.Cancel();
  const Work end = Ask(job, 1, {Done(chunk)});
  ASSERT_TRUE(std::holds_alternative<NoMoreWork>(end));
  EXPECT_TRUE(std::get<NoMoreWork>(end).cancelled);
  EXPECT_EQ(job.counters().chunks_done, 0);
  EXPECT_EQ(job.leases(), 0);
  const JobStatus status = job.Status(now_);
  EXPECT_TRUE(status.finished && status.cancelled);
  EXPECT_EQ(status.state(), "cancelled");
  Job resumed(spec, timing_);
  ASSERT_TRUE(resumed.Resume(job.State(), now_).ok());
  EXPECT_TRUE(resumed.Status(now_).cancelled);
  job.Cancel();
  EXPECT_EQ(resumed.State(), job.State()) << "once is enough";
}

TEST_F(JobTest, WithoutABestEpochNothingIsCompleted) {
  JobSpec spec = Spec(10, 10, 1);
  spec.evaluate = true;
  Job job(spec, timing_);
  const auto evaluation = std::get<EvaluationWork>(Ask(job, 1, {Done(AskChunk(job, 1))}));
  const Work end = Ask(job, 1, {{.lease = evaluation.lease, .metric = std::nan("")}});
  ASSERT_TRUE(std::holds_alternative<NoMoreWork>(end));
  EXPECT_EQ(std::get<NoMoreWork>(end).best_epoch, -1);
}

TEST_F(JobTest, OneTrainerPreparesAStagedJobAndOneCompletesIt) {
  JobSpec spec = Spec(10, 10, 1);
  spec.staged = true;
  spec.evaluate = true;
  Job job(spec, timing_);
  const Work work = Ask(job, 1);
  ASSERT_TRUE(std::holds_alternative<StageWork>(work));
  const auto preparation = std::get<StageWork>(work);
  EXPECT_EQ(preparation.stage, JobStage::kPreparation);
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 2)));
  EXPECT_EQ(job.stage(), JobStage::kPreparation);

  // The first one is lost: the other begins it again, and the late report counts no more.
  now_ += absl::Seconds(11);
  const Work again = Ask(job, 2);
  ASSERT_TRUE(std::holds_alternative<StageWork>(again));
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 1, {{.lease = preparation.lease}})));
  const ChunkWork chunk = AskChunk(job, 2, {{.lease = std::get<StageWork>(again).lease}});
  EXPECT_EQ(chunk.epoch, 0);

  const Work evaluation = Ask(job, 2, {Done(chunk)});
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(evaluation));
  const Work last = Ask(job, 1, {}, {});  // nobody completes it before the evaluation is there
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(last));
  const Work completion =
      Ask(job, 2, {{.lease = std::get<EvaluationWork>(evaluation).lease, .metric = 0.5}});
  ASSERT_TRUE(std::holds_alternative<StageWork>(completion));
  EXPECT_EQ(std::get<StageWork>(completion).stage, JobStage::kCompletion);
  EXPECT_EQ(std::get<StageWork>(completion).best_epoch, 0);
  EXPECT_EQ(std::get<StageWork>(completion).best_metric, 0.5);
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(Ask(job, 1)));
  EXPECT_TRUE(std::holds_alternative<NoMoreWork>(
      Ask(job, 2, {{.lease = std::get<StageWork>(completion).lease}})));
  EXPECT_TRUE(std::holds_alternative<NoMoreWork>(Ask(job, 1)));
}

TEST_F(JobTest, AStagedJobMayHaveNoEpochs) {
  JobSpec spec = Spec(10, 10, 0);
  EXPECT_FALSE(ValidateJobSpec(spec).ok());
  spec.staged = true;
  EXPECT_TRUE(ValidateJobSpec(spec).ok());
  Job job(spec, timing_);
  const auto preparation = std::get<StageWork>(Ask(job, 1));
  const auto completion = std::get<StageWork>(Ask(job, 1, {{.lease = preparation.lease}}));
  EXPECT_EQ(completion.stage, JobStage::kCompletion);
  EXPECT_EQ(completion.best_epoch, -1);
  EXPECT_TRUE(std::holds_alternative<NoMoreWork>(Ask(job, 1, {{.lease = completion.lease}})));
}

TEST_F(JobTest, TheEvaluationOfALostTrainerIsGivenToAnother) {
  JobSpec spec = Spec(10, 10, 1);
  spec.evaluate = true;
  Job job(spec, timing_);
  const Work lost = Ask(job, 1, {Done(AskChunk(job, 1))});
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(lost));
  now_ += absl::Seconds(11);
  const Work again = Ask(job, 2);
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(again));
  // The first one's report comes too late to count.
  EXPECT_TRUE(std::holds_alternative<WaitForWork>(
      Ask(job, 1, {{.lease = std::get<EvaluationWork>(lost).lease, .metric = 0.9}})));
  const Work end = Ask(job, 2, {{.lease = std::get<EvaluationWork>(again).lease, .metric = 0.1}});
  ASSERT_TRUE(std::holds_alternative<StageWork>(end));
  EXPECT_EQ(std::get<StageWork>(end).best_metric, 0.1);
}

// Runs epochs whose evaluations give `metrics`; returns the end.
NoMoreWork RunMetrics(Job& job, const std::vector<double>& metrics, absl::Duration now) {
  std::vector<LeaseReport> finished;
  for (size_t epoch = 0;;) {
    const auto work = job.Acquire({"", Client(1), finished, {}, true}, now);
    finished.clear();
    if (const auto* chunk = std::get_if<ChunkWork>(&*work)) {
      finished.push_back({.lease = chunk->lease, .samples = chunk->count});
    } else if (const auto* evaluation = std::get_if<EvaluationWork>(&*work)) {
      finished.push_back({.lease = evaluation->lease, .metric = metrics.at(epoch++)});
    } else if (const auto* completion = std::get_if<StageWork>(&*work)) {
      finished.push_back({.lease = completion->lease});
    } else {
      EXPECT_EQ(epoch, metrics.size());
      return std::get<NoMoreWork>(*work);
    }
  }
}

TEST_F(JobTest, PatienceEndsAJobWithoutABetterEpoch) {
  JobSpec spec = Spec(10, 4, 100);
  spec.evaluate = true;
  spec.patience_epochs = 2;
  Job job(spec, timing_);
  const NoMoreWork end = RunMetrics(job, {0.1, 0.3, 0.3, 0.2}, now_);  // equal is not better
  EXPECT_EQ(end.best_epoch, 1);
  EXPECT_EQ(end.best_metric, 0.3);
}

TEST_F(JobTest, WithoutPatienceAllEpochsAreTrained) {
  JobSpec spec = Spec(10, 4, 4);
  spec.evaluate = true;
  Job job(spec, timing_);
  EXPECT_EQ(RunMetrics(job, {0.9, 0.3, 0.2, 0.1}, now_).best_epoch, 0);
}

TEST_F(JobTest, AMetricThatIsNoNumberIsNeverBetter) {
  JobSpec spec = Spec(10, 4, 3);
  spec.evaluate = true;
  Job job(spec, timing_);
  const NoMoreWork end = RunMetrics(job, {std::nan(""), -5.0, std::nan("")}, now_);
  EXPECT_EQ(end.best_epoch, 1);
  EXPECT_EQ(end.best_metric, -5.0);
}

TEST_F(JobTest, FalseReportsAreRefusedAndChangeNothing) {
  Job job(Spec(30, 10, 1), timing_);
  const ChunkWork chunk = AskChunk(job, 1);
  const auto refused = [&](uint8_t client, LeaseReport report) {
    const auto work = job.Acquire({"", Client(client), {report}, {}, true}, now_);
    EXPECT_EQ(work.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(work.status()), "BAD_LEASE_REPORT");
  };
  refused(1, {.lease = 77, .samples = 1});
  refused(1, {.lease = 0, .samples = 1});
  refused(1, {.lease = chunk.lease, .samples = 11});
  refused(1, {.lease = chunk.lease, .samples = -1});
  refused(2, {.lease = chunk.lease, .samples = 10});
  EXPECT_EQ(job.Status(now_).samples_done, 0);
  EXPECT_EQ(job.leases(), 1);
}

TEST_F(JobTest, OneTrainerCannotTakeEverything) {
  Job job(Spec(1000, 1, 1), timing_);
  std::vector<LeaseId> held;
  for (int64_t i = 0; i < kMaxLeasesPerClient; ++i)
    held.push_back(AskChunk(job, 1, {}, held).lease);
  const auto work = job.Acquire({"", Client(1), {}, held, true}, now_);
  EXPECT_EQ(work.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(JobSpecTest, FieldsHaveRanges) {
  EXPECT_TRUE(ValidateJobSpec(Spec(10, 4, 1)).ok());
  EXPECT_FALSE(ValidateJobSpec(Spec(0, 4, 1)).ok());
  EXPECT_FALSE(ValidateJobSpec(Spec(10, 0, 1)).ok());
  EXPECT_FALSE(ValidateJobSpec(Spec(10, 4, 0)).ok());
  EXPECT_FALSE(ValidateJobSpec(Spec(int64_t{1} << 40, 1, 1)).ok());  // too many chunks
  JobSpec spec = Spec(10, 4, 1);
  spec.job = "Not A Name";
  EXPECT_EQ(ReasonOf(ValidateJobSpec(spec)), "BAD_NAME");
}

}  // namespace
}  // namespace dslide::coordinator
