#include "services/coordinator/jobs/job_progress.h"

#include <gtest/gtest.h>

#include "tests/unit/services/coordinator/jobs/job_fixture.h"

namespace dslide::coordinator {
namespace {

TEST(JobProgressTest, ThePaceIsThatOfTheLastChunksAndFallsInSilence) {
  JobProgress progress;
  EXPECT_EQ(progress.SamplesPerSecond(absl::Seconds(9)), 0.0);
  progress.OnChunk(100, 1.0, absl::Seconds(1));
  EXPECT_EQ(progress.SamplesPerSecond(absl::Seconds(9)), 0.0) << "one report says nothing";
  for (int second = 2; second <= 100; ++second) {
    progress.OnChunk(second <= 50 ? 10 : 200, 1.0, absl::Seconds(second));
  }
  EXPECT_DOUBLE_EQ(progress.SamplesPerSecond(absl::Seconds(100)), 200.0);
  EXPECT_DOUBLE_EQ(progress.SamplesPerSecond(absl::Seconds(102)), 200.0) << "chunks come in bursts";
  EXPECT_NEAR(progress.SamplesPerSecond(absl::Seconds(133)), 100.0, 1e-9);
  EXPECT_LT(progress.SamplesPerSecond(absl::Hours(1)), 2.0);
}

TEST(JobProgressTest, EpochsHaveTheMeanLossOfTheirSamples) {
  JobProgress progress;
  EXPECT_FALSE(progress.loss().has_value());
  progress.OnChunk(1, 3.0, absl::Seconds(1));
  progress.OnChunk(3, 3.0, absl::Seconds(2));
  EXPECT_EQ(progress.loss(), 1.5);
  progress.EndEpoch(0, 0.25);
  EXPECT_EQ(progress.loss(), 1.5) << "of the last epoch";
  progress.OnChunk(1, std::nan(""), absl::Seconds(3));
  progress.EndEpoch(1, std::nullopt);
  EXPECT_EQ(progress.epochs(), (std::vector<EpochResult>{{0, 1.5, 0.25}, {1, {}, {}}}));
}

TEST(JobProgressTest, EpochsHaveThePaceFromTheFirstLeaseToTheLastReport) {
  JobProgress progress;
  progress.OnLease(absl::Seconds(10));
  progress.OnLease(absl::Seconds(11));
  progress.OnChunk(100, 1.0, absl::Seconds(12));
  progress.OnChunk(300, 1.0, absl::Seconds(14));
  progress.EndEpoch(0, 0.5);
  progress.OnLease(absl::Seconds(60));
  progress.OnChunk(100, 1.0, absl::Seconds(60));
  progress.EndEpoch(1, 0.5);
  EXPECT_EQ(progress.epochs()[0].samples_per_second, 100.0);
  EXPECT_FALSE(progress.epochs()[1].samples_per_second.has_value()) << "no time has passed";

  progress.Restore({});
  progress.OnLease(absl::Seconds(70));
  progress.OnChunk(100, 1.0, absl::Seconds(71));
  progress.EndEpoch(0, 0.5);
  EXPECT_FALSE(progress.epochs()[0].samples_per_second.has_value())
      << "another process has seen the beginning";
}

TEST(JobProgressTest, ALongJobsCurveIsCoarserAndEndsWithTheLastEpoch) {
  JobProgress progress;
  for (int64_t epoch = 0; epoch < 1000; ++epoch) {
    progress.EndEpoch(epoch, 0.5);
    ASSERT_LE(progress.epochs().size(), JobProgress::kMaxPoints);
    ASSERT_EQ(progress.epochs().back().epoch, epoch);
  }
  EXPECT_EQ(progress.epochs().front().epoch, 0);
  EXPECT_GE(progress.epochs().size(), JobProgress::kMaxPoints / 2);
}

TEST(JobProgressTest, AStatusTellsHowLongTheJobWillTake) {
  JobStatus status{.epoch = 2, .max_epochs = 5, .samples_done = 50, .samples_per_epoch = 100};
  EXPECT_FALSE(status.time_left().has_value());
  status.samples_per_second = 25;
  EXPECT_EQ(status.time_left(), absl::Seconds(10));
  EXPECT_FALSE(status.last_metric().has_value());
  status.epochs = {{0, 1.0, 0.25}, {1, 1.0, 0.5}, {2, 1.0, {}}};
  EXPECT_EQ(status.last_metric(), 0.5);
  status.finished = true;
  EXPECT_EQ(status.time_left(), absl::ZeroDuration());
}

}  // namespace
}  // namespace dslide::coordinator
