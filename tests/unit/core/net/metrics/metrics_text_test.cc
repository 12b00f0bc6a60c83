#include "core/net/metrics/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dslide {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTextTest, ReadsWhatMetricsExpose) {
  Metrics metrics(MetricLabels{{"shard", "2"}});
  const std::string odd = "a\"b\\c\nd,}";
  metrics.AddCounter("calls_total", "Calls.", {{"method", "Step"}}).Increment(3);
  metrics.AddCounter("calls_total", "Calls.", {{"method", odd}}).Increment(4);
  metrics.AddGauge("level", "Level.").Set(-1.5e-9);
  const auto page = MetricsText::Parse(metrics.Expose());
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->Sum("calls_total"), 7);
  EXPECT_EQ(page->Sum("calls_total", {{"method", odd}}), 4);
  EXPECT_EQ(page->Sum("calls_total", {{"method", odd}, {"shard", "2"}}), 4);
  EXPECT_EQ(page->Sum("calls_total", {{"shard", "3"}}), 0);
  EXPECT_DOUBLE_EQ(page->Sum("level"), -1.5e-9);
  EXPECT_TRUE(page->Has("level"));
  EXPECT_FALSE(page->Has("other"));
}

TEST(MetricsTextTest, QuantilesLieBetweenTheBounds) {
  Metrics metrics;
  const Histogram histogram = metrics.AddHistogram("wait_seconds", "Wait.", {}, {1, 2, 4});
  EXPECT_TRUE(std::isnan(MetricsText::Parse(metrics.Expose())->Quantile("wait_seconds", 0.5)));
  for (int i = 0; i < 10; ++i) histogram.Observe(1.5);
  MetricsText page = *MetricsText::Parse(metrics.Expose());
  EXPECT_DOUBLE_EQ(page.Quantile("wait_seconds", 0.5), 1.5);
  EXPECT_DOUBLE_EQ(page.Quantile("wait_seconds", 1.0), 2.0);
  for (int i = 0; i < 90; ++i) histogram.Observe(100);
  page = *MetricsText::Parse(metrics.Expose());
  EXPECT_DOUBLE_EQ(page.Quantile("wait_seconds", 0.5), 4.0);  // all that is known: above 4
}

TEST(MetricsTextTest, SpecialNumbersAndTimestamps) {
  const auto page = MetricsText::Parse("a NaN\nb +Inf\nc{x=\"1\"} 5 1700000000\n# HELP a\n\n");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_TRUE(std::isnan(page->Series("a")[0].value));
  EXPECT_TRUE(std::isinf(page->Series("b")[0].value));
  EXPECT_EQ(page->Sum("c"), 5);
}

TEST(MetricsTextTest, GarbageIsAnErrorThatNamesTheLine) {
  for (const char* line : {"name", "name{a=\"b\" 1", "name{a=\"b} 1", "name{a} 1", "name x", "{} 1",
                           "name{a=\"b\"}", "<html>"}) {
    const auto page = MetricsText::Parse(std::string("ok 1\n") + line + "\n");
    EXPECT_TRUE(absl::IsInvalidArgument(page.status())) << line;
    EXPECT_THAT(std::string(page.status().message()), HasSubstr("line 2")) << line;
  }
}

}  // namespace
}  // namespace dslide
