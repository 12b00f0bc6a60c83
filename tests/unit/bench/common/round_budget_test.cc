#include "bench/common/round_budget.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace dslide::bench {
namespace {

// Time that moves when it is told to.
struct SetClock final : Clock {
  absl::Duration Now() const override { return now; }
  absl::Duration now = absl::Seconds(1000);
};

// How many rounds of so many seconds each there are.
int64_t RoundsOf(double budget_seconds, double round_seconds) {
  SetClock clock;
  RoundBudget budget(clock, absl::Seconds(budget_seconds));
  while (budget.Next()) clock.now += absl::Seconds(round_seconds);
  EXPECT_EQ(budget.Used(), absl::Seconds(round_seconds) * budget.rounds());
  return budget.rounds();
}

TEST(RoundBudgetTest, HasRoomForWholeRounds) {
  EXPECT_EQ(RoundsOf(120, 10), 12);
  EXPECT_EQ(RoundsOf(120, 11), 10);
}

TEST(RoundBudgetTest, OneRoundIsMeasuredInAnyCase) {
  EXPECT_EQ(RoundsOf(0, 10), 1);
  EXPECT_EQ(RoundsOf(5, 10), 1);
}

TEST(RoundBudgetTest, ExpectsTheLongestRoundOnceMore) {
  SetClock clock;
  RoundBudget budget(clock, absl::Seconds(20));
  ASSERT_TRUE(budget.Next());
  clock.now += absl::Seconds(8);
  ASSERT_TRUE(budget.Next());
  clock.now += absl::Seconds(5);
  EXPECT_FALSE(budget.Next());  // 7 s are left
  EXPECT_EQ(budget.rounds(), 2);
}

}  // namespace
}  // namespace dslide::bench
