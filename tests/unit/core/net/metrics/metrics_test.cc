#include "core/net/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTest, CountersStartAtZeroAndAdd) {
  Metrics metrics;
  const Counter counter =
      metrics.AddCounter("dslide_test_bytes_total", "Bytes.", {{"direction", "sent"}});
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_test_bytes_total{direction=\"sent\"} 0\n"));
  counter.Increment();
  counter.Increment(41);
  EXPECT_EQ(counter.Value(), 42.0);
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_test_bytes_total{direction=\"sent\"} 42\n"));
  EXPECT_THAT(metrics.Expose(), HasSubstr("# HELP dslide_test_bytes_total Bytes.\n"));
  EXPECT_THAT(metrics.Expose(), HasSubstr("# TYPE dslide_test_bytes_total counter\n"));
}

TEST(MetricsTest, TheSameNameAndLabelsAreTheSameSeries) {
  Metrics metrics;
  metrics.AddCounter("dslide_test_calls_total", "Calls.", {{"code", "OK"}}).Increment();
  metrics.AddCounter("dslide_test_calls_total", "Calls.", {{"code", "OK"}}).Increment();
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_test_calls_total{code=\"OK\"} 2\n"));
}

TEST(MetricsTest, GaugesGoBothWays) {
  Metrics metrics;
  const Gauge gauge = metrics.AddGauge("dslide_test_rows", "Rows.");
  gauge.Set(5);
  gauge.Add(-2);
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_test_rows 3\n"));
}

TEST(MetricsTest, HistogramsCountIntoBuckets) {
  Metrics metrics;
  const Histogram histogram = metrics.AddHistogram("dslide_test_wait_seconds", "Wait.");
  histogram.Observe(2e-4);
  histogram.Observe(100.0);
  const std::string page = metrics.Expose();
  EXPECT_THAT(page, HasSubstr("dslide_test_wait_seconds_bucket{le=\"0.00025\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("dslide_test_wait_seconds_bucket{le=\"10\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("dslide_test_wait_seconds_bucket{le=\"+Inf\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("dslide_test_wait_seconds_count 2\n"));
}

TEST(MetricsTest, CallbacksAreAskedForEachPageUntilRemoved) {
  Metrics metrics(MetricLabels{{"shard", "3"}});
  double value = 1;
  metrics.AddGaugeCallback(&value, "dslide_test_age_seconds", "Age.", {{"kind", "x"}},
                           [&value] { return value++; });
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_test_age_seconds{kind=\"x\",shard=\"3\"} 1\n"));
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_test_age_seconds{kind=\"x\",shard=\"3\"} 2\n"));
  metrics.RemoveCallbacks(&value);
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("dslide_test_age_seconds")));
}

TEST(MetricsTest, LabelsOfAGaugeComeAndGo) {
  Metrics metrics(MetricLabels{{"shard", "3"}});
  Metrics::Samples samples;
  metrics.AddGaugesCallback(&samples, "dslide_test_pace", "Pace.", [&samples] { return samples; });
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("dslide_test_pace{")));
  samples = {{{{"job_name", "a"}}, 1}, {{{"job_name", "b"}}, 2}};
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_test_pace{job_name=\"b\",shard=\"3\"} 2\n"));
  samples.pop_back();
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("job_name=\"b\"")));
}

TEST(MetricsTest, SeveralServicesShareAPageWithOneHelpTextPerName) {
  Metrics first(MetricLabels{{"shard", "0"}});
  Metrics second(MetricLabels{{"shard", "1"}});
  first.AddGauge("dslide_test_rows", "Rows.").Set(10);
  second.AddGauge("dslide_test_rows", "Rows.").Set(20);
  const Metrics* const all[] = {&first, &second};
  const std::string page = ExposeAll(all);
  EXPECT_THAT(page, HasSubstr("dslide_test_rows{shard=\"0\"} 10\n"));
  EXPECT_THAT(page, HasSubstr("dslide_test_rows{shard=\"1\"} 20\n"));
  EXPECT_EQ(page.find("# HELP dslide_test_rows"), page.rfind("# HELP dslide_test_rows"));
}

TEST(MetricsTest, ProcessMetricsAreThereWithTheBuild) {
  Metrics metrics;
  metrics.AddProcessMetrics();
  const std::string page = metrics.Expose();
  EXPECT_THAT(page, HasSubstr("dslide_build_info{"));
  EXPECT_THAT(page, HasSubstr("version=\"0."));
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes",
                           "process_open_fds", "process_start_time_seconds"}) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n", name, " ")));
    EXPECT_THAT(page, Not(HasSubstr(absl::StrCat("\n", name, " 0\n")))) << name;
  }
}

TEST(MetricsTest, AHandleWithoutMetricsCountsNothing) {
  Counter().Increment();
  Gauge().Set(1);
  Histogram().Observe(1);
  EXPECT_EQ(Counter().Value(), 0.0);
}

TEST(MetricsDeathTest, AKindMayNotChange) {
  Metrics metrics;
  metrics.AddGauge("dslide_test_rows", "Rows.");
  EXPECT_DEATH(metrics.AddHistogram("dslide_test_rows", "Rows."), "another kind");
  EXPECT_DEATH(metrics.AddCounter("dslide_test_rows", "Rows."), "_total");
  EXPECT_DEATH(metrics.AddGauge("Dslide-Rows", "Rows."), "names are made of");
}

}  // namespace
}  // namespace dslide
