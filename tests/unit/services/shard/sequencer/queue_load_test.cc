#include "services/shard/sequencer/queue_load.h"

#include <gtest/gtest.h>

namespace dslide::shard {
namespace {

TEST(QueueLoadTest, AKindIsExpectedToTakeWhatItsLastOnesTook) {
  QueueLoad load;
  EXPECT_EQ(load.Expect(3), absl::ZeroDuration());
  load.Learn(3, absl::Seconds(8));
  EXPECT_EQ(load.Expect(3), absl::Seconds(8));
  load.Learn(3, absl::ZeroDuration());
  EXPECT_EQ(load.Expect(3), absl::Seconds(7));
  for (int i = 0; i < 100; ++i) load.Learn(3, absl::Seconds(1));
  EXPECT_NEAR(absl::ToDoubleSeconds(load.Expect(3)), 1, 1e-3);
  EXPECT_EQ(load.Expect(2), absl::ZeroDuration());
  EXPECT_EQ(load.Expect(4), absl::ZeroDuration());
}

TEST(QueueLoadTest, WhatEntersAndLeavesIsSummed) {
  QueueLoad load;
  load.Enter(10, absl::Seconds(1));
  load.Enter(20, absl::Seconds(2));
  EXPECT_EQ(load.bytes(), 30);
  EXPECT_EQ(load.work(), absl::Seconds(3));
  load.Leave(10, absl::Seconds(1));
  load.Leave(20, absl::Seconds(2));
  EXPECT_EQ(load.bytes(), 0);
  EXPECT_EQ(load.work(), absl::ZeroDuration());
}

}  // namespace
}  // namespace dslide::shard
