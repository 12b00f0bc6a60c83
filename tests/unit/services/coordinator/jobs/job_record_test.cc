// Jobs that go on from what was kept of them.

#include <gtest/gtest.h>

#include <functional>

#include "services/coordinator/jobs/job.h"
#include "tests/unit/services/coordinator/jobs/job_fixture.h"

namespace dslide::coordinator {
namespace {

using JobRecordTest = JobFixture;

TEST_F(JobRecordTest, ARecordBringsBackWhatWasDoneAndOpensTheRest) {
  Job job(Spec(45, 10, 3), timing_);
  const ChunkWork first = AskChunk(job, 1);
  const ChunkWork second = AskChunk(job, 2);
  const ChunkWork third = AskChunk(job, 1, {Done(first)});
  Ask(job, 2, {}, {second.lease}, /*want_work=*/false);
  AskChunk(job, 1, {Done(third)});  // the fourth is leased, the fifth was never given
  const JobRecord record = job.Record();
  EXPECT_EQ(record.done, (std::vector<JobRecord::Range>{{0, 1}, {2, 1}}));

  Job restored(Spec(45, 10, 3), timing_, /*first_lease=*/100);
  ASSERT_TRUE(restored.Restore(record).ok());
  EXPECT_EQ(restored.Record(), record);
  EXPECT_EQ(restored.Status(now_).samples_done, 20);
  EXPECT_EQ(AskChunk(restored, 3), (ChunkWork{100, 0, 10, 10}));
  EXPECT_EQ(AskChunk(restored, 4), (ChunkWork{101, 0, 30, 10}));
  EXPECT_EQ(AskChunk(restored, 5), (ChunkWork{102, 0, 40, 5}));
}

TEST_F(JobRecordTest, ARecordKeepsTheStage) {
  JobSpec spec = Spec(10, 10, 1);
  spec.staged = true;
  Job job(spec, timing_);
  const auto goes_on = [&](JobStage stage) {
    Job restored(spec, timing_, /*first_lease=*/100);
    EXPECT_TRUE(restored.Restore(job.Record()).ok());
    EXPECT_EQ(restored.Record(), job.Record());
    EXPECT_EQ(restored.stage(), stage);
    return Ask(restored, 7);
  };
  const auto preparation = std::get<StageWork>(Ask(job, 1));
  EXPECT_TRUE(std::holds_alternative<StageWork>(goes_on(JobStage::kPreparation)));
  const ChunkWork chunk = AskChunk(job, 1, {{.lease = preparation.lease}});
  EXPECT_TRUE(std::holds_alternative<ChunkWork>(goes_on(JobStage::kTraining)));
  const auto completion = std::get<StageWork>(Ask(job, 1, {Done(chunk)}));
  const Work open = goes_on(JobStage::kCompletion);
  ASSERT_TRUE(std::holds_alternative<StageWork>(open));
  EXPECT_EQ(std::get<StageWork>(open).stage, JobStage::kCompletion);
  Ask(job, 1, {{.lease = completion.lease}});
  EXPECT_TRUE(std::holds_alternative<NoMoreWork>(goes_on(JobStage::kCompletion)));

  JobRecord wrong = job.Record();
  wrong.spec.staged = false;
  Job plain(wrong.spec, timing_);
  EXPECT_EQ(plain.Restore(wrong).message(), "the record of job job has a bad stage");
}

// What trainers of before report belongs to nobody now, and does no harm.
TEST_F(JobRecordTest, LateReportsOfBeforeARestoreDoNotCount) {
  Job job(Spec(30, 10, 1), timing_);
  const JobRecord empty = job.Record();
  const ChunkWork before = AskChunk(job, 1);
  ASSERT_TRUE(job.Restore(empty).ok());
  const ChunkWork after = AskChunk(job, 1, {Done(before)});
  EXPECT_EQ(after.first, 0);
  EXPECT_NE(after.lease, before.lease);
  EXPECT_EQ(job.Status(now_).samples_done, 0);
  EXPECT_EQ(job.counters().late_reports, 1);
}

TEST_F(JobRecordTest, ARecordKeepsAnOpenEvaluationAndTheBestEpoch) {
  JobSpec spec = Spec(10, 10, 5);
  spec.evaluate = true;
  spec.patience_epochs = 2;
  Job job(spec, timing_);
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(Ask(job, 1, {Done(AskChunk(job, 1))})));
  Job waiting(spec, timing_);
  ASSERT_TRUE(waiting.Restore(job.Record()).ok());
  const Work work = Ask(waiting, 1);
  ASSERT_TRUE(std::holds_alternative<EvaluationWork>(work));
  const LeaseId lease = std::get<EvaluationWork>(work).lease;
  AskChunk(waiting, 1, {{.lease = lease, .metric = 0.5}});
  Job later(spec, timing_);
  ASSERT_TRUE(later.Restore(waiting.Record()).ok());
  EXPECT_EQ(later.Status(now_).epoch, 1);
  EXPECT_EQ(later.Status(now_).best_epoch, 0);
  EXPECT_EQ(later.Status(now_).best_metric, 0.5);
}

TEST_F(JobRecordTest, ARecordThatDoesNotFitIsRefusedAndChangesNothing) {
  Job job(Spec(30, 10, 3), timing_);
  const ChunkWork first = AskChunk(job, 1);
  const JobRecord good = job.Record();
  const auto refused = [&](const std::function<void(JobRecord&)>& spoil) {
    JobRecord record = good;
    spoil(record);
    EXPECT_TRUE(absl::IsDataLoss(job.Restore(record)));
  };
  refused([](JobRecord& record) { record.spec.seed = 9; });
  refused([](JobRecord& record) { record.epoch = -1; });
  refused([](JobRecord& record) { record.epoch = 4; });
  refused([](JobRecord& record) { record.done = {{0, 4}}; });
  refused([](JobRecord& record) { record.done = {{-1, 1}}; });
  refused([](JobRecord& record) { record.done = {{1, 1}, {0, 1}}; });
  refused([](JobRecord& record) { record.done = {{0, 0}}; });
  EXPECT_EQ(AskChunk(job, 1), first);
}

TEST_F(JobRecordTest, AStateBringsBackWhoWorksOnWhat) {
  Job job(Spec(45, 10, 3), timing_);
  const ChunkWork first = AskChunk(job, 1);
  const ChunkWork second = AskChunk(job, 2);
  now_ += timing_.lease_timeout;
  Ask(job, 3, {}, {}, /*want_work=*/false);  // nobody renews: both are over

  Job resumed(Spec(45, 10, 3), timing_);
  ASSERT_TRUE(resumed.Resume(job.State(), now_).ok());
  EXPECT_EQ(resumed.State(), job.State());
  // The first trainer was only slow; the second one's chunk is another's by now.
  Ask(resumed, 1, {Done(first)}, {}, /*want_work=*/false);
  EXPECT_EQ(resumed.counters().chunks_done, 1);
  EXPECT_EQ(AskChunk(resumed, 3), (ChunkWork{3, 0, 10, 10}));
  Ask(resumed, 2, {Done(second)}, {}, /*want_work=*/false);
  EXPECT_EQ(resumed.counters().late_reports, 1);
}

TEST_F(JobRecordTest, AStateOfAnotherJobIsRefused) {
  Job job(Spec(45, 10, 3), timing_);
  AskChunk(job, 1);
  const JobState good = job.State();
  const auto refused = [&](const std::function<void(JobState&)>& change) {
    JobState state = good;
    change(state);
    Job other(Spec(45, 10, 3), timing_);
    return absl::IsDataLoss(other.Resume(state, now_));
  };
  EXPECT_FALSE(refused([](JobState&) {}));
  EXPECT_TRUE(refused([](JobState& state) { state.record.spec.seed = 77; }));
  EXPECT_TRUE(refused([](JobState& state) { state.leases[0].lease = 0; }));
  EXPECT_TRUE(refused([](JobState& state) { state.leases[0].lease = state.next_lease; }));
  EXPECT_TRUE(refused([](JobState& state) { state.leases[0].chunk = 5; }));
  EXPECT_TRUE(refused([](JobState& state) { state.leases[0].chunk = -7; }));
  EXPECT_TRUE(refused([](JobState& state) { state.leases.push_back(state.leases[0]); }));
  EXPECT_TRUE(refused([](JobState& state) { state.record.done = {{0, 1}}; }));
}

}  // namespace
}  // namespace dslide::coordinator
