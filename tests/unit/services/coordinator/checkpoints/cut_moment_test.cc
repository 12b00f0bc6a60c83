// When a cluster checkpoint freezes.

#include <gtest/gtest.h>

#include "tests/unit/services/coordinator/checkpoints/cluster_checkpoints_fixture.h"

namespace dslide::coordinator {
namespace {

class CutMomentTest : public ClusterCheckpointsTest {
 protected:
  // Shard i says so `times` times, and then that this is a good moment.
  void Busy(int i, int64_t times, absl::Duration freeze_delay) {
    Shard(i)([=](auto& shard) {
      shard.freeze_delay = [=]() mutable {
        return times-- > 0 ? freeze_delay : absl::ZeroDuration();
      };
    });
  }
  // Takes one. How long it took, by the clock.
  absl::Duration TimeToTake() {
    const absl::Duration start = clock_.Now();
    taken_ = Take();
    EXPECT_TRUE(taken_.ok()) << taken_.status();
    return clock_.Now() - start;
  }

  absl::StatusOr<Manifest> taken_;
};

TEST_F(CutMomentTest, ComesWhenAllShardsSaySo) {
  Busy(1, 20, absl::Seconds(5));
  Busy(2, 3, absl::Milliseconds(300));
  EXPECT_EQ(TimeToTake(), absl::Milliseconds(100));
  EXPECT_EQ(taken_->stall_us, 0) << "nobody stands still meanwhile";
  EXPECT_EQ(taken_->duration_us, 0) << "and it costs nothing";
  EXPECT_EQ(TimeToTake(), absl::ZeroDuration());
}

TEST_F(CutMomentTest, IsAwaitedAsLongAsThatIsWorthIt) {
  Busy(1, 1'000'000, absl::Seconds(5));
  EXPECT_EQ(TimeToTake(), absl::Seconds(5));
  Busy(1, 1'000'000, absl::Milliseconds(300));
  EXPECT_EQ(TimeToTake(), absl::Milliseconds(300));
  Busy(1, 1'000'000, absl::Hours(1));
  EXPECT_EQ(TimeToTake(), absl::Seconds(10)) << "whatever a shard says";
}

TEST_F(CutMomentTest, IsAwaitedAnewForAnotherReason) {
  Busy(1, 100, absl::Seconds(5));
  Busy(2, 1'000'000, absl::Milliseconds(300));
  EXPECT_EQ(TimeToTake(), absl::Milliseconds(500 + 300));
}

TEST_F(CutMomentTest, IsNotAwaitedWhereAShardCannotBeAsked) {
  Shard(1)([](auto& shard) { shard.failure = absl::UnavailableError("gone"); });
  const absl::Duration start = clock_.Now();
  EXPECT_TRUE(absl::IsUnavailable(Take().status()));
  EXPECT_EQ(clock_.Now(), start);
  Shard(0)([](auto& shard) { EXPECT_EQ(shard.frozen, 0u); });
}

}  // namespace
}  // namespace dslide::coordinator
