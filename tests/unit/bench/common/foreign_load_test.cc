#include "bench/common/foreign_load.h"

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide::bench {
namespace {

using testing::HasSubstr;

TEST(BusyTicksTest, LeavesOutIdleAndDiskWaitAndDoesNotCountGuestsTwice) {
  // user nice system idle iowait irq softirq steal guest guest_nice
  const auto busy = BusyTicks("cpu  100 20 30 100000 5000 4 5 6 70 8\ncpu0 1 1 1 1 1 1 1 1\n");
  ASSERT_TRUE(busy.ok()) << busy.status();
  EXPECT_EQ(*busy, 100 + 20 + 30 + 4 + 5 + 6);
}

TEST(BusyTicksTest, RefusesOtherText) {
  EXPECT_FALSE(BusyTicks("").ok());
  EXPECT_FALSE(BusyTicks("cpu 1 2 3\n").ok());
  EXPECT_FALSE(BusyTicks("cpu0 1 2 3 4 5 6 7 8\n").ok());
  const auto bad = BusyTicks("cpu 1 2 x 4 5 6 7 8\n");
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("\"x\" in column 3"));
  EXPECT_FALSE(BusyTicks("cpu 1 2 -3 4 5 6 7 8\n").ok());
}

TEST(ForeignProcessorsTest, IsWhatOthersUsedForEachSecond) {
  EXPECT_DOUBLE_EQ(ForeignProcessors(absl::Seconds(6), absl::Seconds(4), absl::Seconds(4)), 0.5);
  // Ticks are coarse: own time may look larger than all time.
  EXPECT_EQ(ForeignProcessors(absl::Seconds(1), absl::Seconds(2), absl::Seconds(4)), 0.0);
}

TEST(ForeignLoadTest, DoesNotCountThisProcess) {
  const ForeignLoad load;
  double sum = 0.0;
  for (int i = 0; i < 20'000'000; ++i) sum += i;
  EXPECT_GT(sum, 0.0);
  EXPECT_GE(load.Processors(), 0.0);
}

}  // namespace
}  // namespace dslide::bench
