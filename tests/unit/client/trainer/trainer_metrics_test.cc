#include "client/trainer/trainer_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/trainer/round_trip_metrics.h"
#include "core/net/metrics/metrics_text.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TrainerMetricsTest : public ::testing::Test {
 protected:
  MetricsText Figures() const { return *MetricsText::Parse(metrics_.Expose()); }

  Metrics metrics_;
  WireCounters counters_;
  TrainerMetrics trainer_{metrics_, counters_};
};

TEST_F(TrainerMetricsTest, BytesAreComparedWithSamplesAndWithDenseTraining) {
  EXPECT_EQ(trainer_.BytesPerSample(), 0);
  EXPECT_EQ(trainer_.SavedBytesRatio(), 0);
  FinishedStep step;
  step.samples = 10;
  trainer_.OnStep(step, /*dense_bytes=*/1000);
  counters_.AddSent(WireMethod::kStep, 60 - WireCounters::kPrefixBytes);
  counters_.AddReceived(WireMethod::kStep, 40 - WireCounters::kPrefixBytes);
  counters_.AddSent(WireMethod::kCoordinator, 5000);  // no part of a step
  EXPECT_DOUBLE_EQ(trainer_.BytesPerSample(), 10);
  EXPECT_DOUBLE_EQ(trainer_.SavedBytesRatio(), 0.9);
  const MetricsText figures = Figures();
  EXPECT_DOUBLE_EQ(figures.Sum("dslide_trainer_bytes_per_sample"), 10);
  EXPECT_DOUBLE_EQ(figures.Sum("dslide_trainer_saved_bytes_ratio"), 0.9);
}

TEST_F(TrainerMetricsTest, StagesAreObservedByTheirGrowth) {
  trainer_.OnStages({.hash = 0.5, .compute = 1.0});
  trainer_.OnStages({.hash = 0.5, .compute = 3.0});
  const MetricsText figures = Figures();
  const auto sum = [&](const char* stage) {
    return figures.Sum("dslide_trainer_stage_seconds_sum", {{"stage", stage}});
  };
  EXPECT_DOUBLE_EQ(sum("compute"), 3.0);
  EXPECT_DOUBLE_EQ(sum("hash"), 0.5);
  EXPECT_EQ(figures.Sum("dslide_trainer_stage_seconds_count", {{"stage", "compute"}}), 2);
}

TEST_F(TrainerMetricsTest, ThePageForPeopleIsReadableBeforeTheFirstStep) {
  const std::string html = RenderStatusPage("dslide train", true, "ready", trainer_.Page());
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, HasSubstr("Bytes per sample"));
  EXPECT_THAT(html, HasSubstr("Bytes saved"));
}

TEST(RoundTripMetricsTest, ShardsAreToldApart) {
  Metrics metrics;
  RoundTripMetrics round_trips(metrics);
  round_trips.Observe(ShardId(0), absl::Milliseconds(2));
  round_trips.Observe(ShardId(1), absl::Milliseconds(30));
  round_trips.Observe(ShardId(1), absl::Milliseconds(10));
  const MetricsText figures = *MetricsText::Parse(metrics.Expose());
  EXPECT_EQ(figures.Sum("dslide_trainer_round_trip_seconds_count", {{"shard", "1"}}), 2);
  EXPECT_DOUBLE_EQ(figures.Sum("dslide_trainer_round_trip_seconds_sum", {{"shard", "1"}}), 0.04);
}

}  // namespace
}  // namespace dslide
