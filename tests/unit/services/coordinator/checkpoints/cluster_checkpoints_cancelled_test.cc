// Checkpoints and restores that somebody cancels: nothing half done is left, and the next one
// works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/services/coordinator/checkpoints/cluster_checkpoints_fixture.h"

namespace dslide::coordinator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CancelledCheckpointsTest : public ClusterCheckpointsTest {
 protected:
  void Cancel() { progress_.Cancel(absl::CancelledError("enough")); }
  // Cancelled as it was asked for, on all shards; and the next one is taken.
  void ExpectCancelledAndTheNextTaken() {
    const auto taken = Take();
    EXPECT_EQ(taken.status(), absl::CancelledError("enough"));
    EXPECT_THAT(Committed(), IsEmpty());
    EXPECT_EQ(cut_, 1) << "models may come and go again";
    for (int i = 0; i < 3; ++i) {
      Shard(i)([](auto& shard) {
        EXPECT_EQ(shard.frozen, 0u);
        EXPECT_THAT(shard.aborted, Contains(1));
        shard.freeze_delay = nullptr;
        shard.incomplete = nullptr;
        shard.on_progress = nullptr;
      });
    }
    WorkProgress progress;
    const auto next = checkpoints_->Take(
        map_, [](Manifest&) {}, [] {}, progress);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->checkpoint_id, 2u);
  }
};

TEST_F(CancelledCheckpointsTest, BeforeAGoodMoment) {
  Shard(1)([&](auto& shard) {
    shard.freeze_delay = [&] {
      Cancel();
      return absl::Seconds(5);
    };
  });
  ExpectCancelledAndTheNextTaken();
  EXPECT_EQ(captured_, 0);
}

TEST_F(CancelledCheckpointsTest, WhileStepsAreFinished) {
  Shard(2)([&](auto& shard) {
    shard.incomplete = [&](const auto&, const auto&) {
      Cancel();
      return std::vector<ClientStep>{{ClientId{1}, 7}};
    };
  });
  ExpectCancelledAndTheNextTaken();
  Shard(2)([](auto& shard) { EXPECT_THAT(shard.closed, IsEmpty()); });
}

TEST_F(CancelledCheckpointsTest, WhileAShardWrites) {
  Shard(0)([&](auto& shard) {
    shard.on_progress = [&](PartProgress& part) {
      part.state = PartProgress::State::kWriting;
      Cancel();
    };
  });
  ExpectCancelledAndTheNextTaken();
}

// All parts are there, and one look is left.
TEST_F(CancelledCheckpointsTest, JustBeforeItIsCommitted) {
  for (int i = 0; i < 3; ++i) {
    Shard(i)([&](auto& shard) { shard.on_progress = [&](PartProgress&) { Cancel(); }; });
  }
  ExpectCancelledAndTheNextTaken();
}

TEST_F(CancelledCheckpointsTest, WhatIsCommittedStays) {
  ASSERT_TRUE(Take().ok());
  Cancel();
  EXPECT_TRUE(absl::IsCancelled(Take().status()));
  EXPECT_THAT(Committed(), ElementsAre(1));
}

TEST_F(CancelledCheckpointsTest, AVerificationEndsEarly) {
  ASSERT_TRUE(Take().ok());
  shards_.on_verify = [](WorkProgress& progress) {
    progress.Cancel(absl::CancelledError("enough"));
  };
  EXPECT_EQ(checkpoints_->Verify(map_, 1, progress_).status(), absl::CancelledError("enough"));
}

TEST_F(CancelledCheckpointsTest, ARestoreThatHasNotBegunChangesNothing) {
  ASSERT_TRUE(Take().ok());
  shards_.on_verify = [](WorkProgress& progress) {
    progress.Cancel(absl::CancelledError("enough"));
  };
  EXPECT_TRUE(absl::IsCancelled(checkpoints_->Rollback(map_, 1, progress_).status()));
  EXPECT_EQ(checkpoints_->restore_count(), 0u);
  for (int i = 0; i < 3; ++i) {
    Shard(i)([](auto& shard) {
      EXPECT_THAT(shard.rolled_back, IsEmpty());
      EXPECT_THAT(shard.aborted, ElementsAre(1)) << "what was prepared is dropped";
    });
  }
  // Also not in the eyes of the next coordinator.
  auto store = ManifestStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_FALSE((*store)->restore_mark().begun());
}

TEST_F(CancelledCheckpointsTest, ARestoreThatHasBegunIsFinished) {
  ASSERT_TRUE(Take().ok());
  Shard(0)([&](auto& shard) { shard.on_rollback = [&] { Cancel(); }; });
  EXPECT_TRUE(checkpoints_->Rollback(map_, 1, progress_).ok());
  EXPECT_EQ(checkpoints_->restore_count(), 1u);
  for (int i = 0; i < 3; ++i) {
    Shard(i)([](auto& shard) { EXPECT_THAT(shard.rolled_back, ElementsAre(1)); });
  }
}

}  // namespace
}  // namespace dslide::coordinator
