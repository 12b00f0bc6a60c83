#include "services/coordinator/checkpoints/cluster_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/coordinator_reason_words.h"
#include "services/coordinator/checkpoints/checkpoint_schedule.h"
#include "tests/unit/services/coordinator/checkpoints/cluster_checkpoints_fixture.h"

namespace dslide::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ClientId kAnn = {1};
constexpr ClientId kBob = {2};

TEST_F(ClusterCheckpointsTest, CommitsWhatAllShardsHaveWritten) {
  Shard(1)([](auto& shard) { shard.stall = absl::Milliseconds(40); });
  Shard(2)([](auto& shard) { shard.stall = absl::Milliseconds(30); });
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->checkpoint_id, 1u);
  ASSERT_EQ(taken->parts.size(), 3u);
  EXPECT_EQ(taken->parts[2].shard, ShardId(2));
  EXPECT_EQ(taken->parts[2].generation, 7u);
  EXPECT_EQ(taken->parts[2].rows, 10);
  EXPECT_EQ(taken->stall_us, 40'000) << "the longest";
  EXPECT_EQ(captured_, 1);
  EXPECT_EQ(cut_, 1);
  EXPECT_THAT(Committed(), ElementsAre(1));
}

// The cut is at the highest step that any shard has begun, everywhere.
TEST_F(ClusterCheckpointsTest, AdmitsTheHighestStepOfAnyShardOnAll) {
  Shard(0)([](auto& shard) { shard.changed = {{kAnn, 4}, {kBob, 2}}; });
  Shard(1)([](auto& shard) { shard.changed = {{kAnn, 5}}; });
  std::vector<ClientStep> admitted;
  Shard(2)([&](auto& shard) {
    shard.incomplete = [&](const std::vector<ClientStep>& up_to, const std::vector<ClientId>&) {
      admitted = up_to;
      return std::vector<ClientStep>();
    };
  });
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  ASSERT_EQ(admitted.size(), 2u);
  EXPECT_EQ(admitted[0].client, kAnn);
  EXPECT_EQ(admitted[0].step, 5);
  EXPECT_EQ(admitted[1].step, 2);
  EXPECT_EQ(taken->steps.size(), 2u);
  EXPECT_THAT(taken->evicted, IsEmpty());
}

// A step whose end stands behind the beginning of the next one takes that one with it.
TEST_F(ClusterCheckpointsTest, AdmitsAlsoWhatStandsInTheWay) {
  Shard(0)([](auto& shard) {
    shard.changed = {{kAnn, 4}};
    shard.incomplete = [](const std::vector<ClientStep>& up_to, const std::vector<ClientId>&) {
      return up_to[0].step < 6 ? std::vector<ClientStep>{{kAnn, up_to[0].step + 1}}
                               : std::vector<ClientStep>();
    };
  });
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  ASSERT_EQ(taken->steps.size(), 1u);
  EXPECT_EQ(taken->steps[0].step, 6);
}

TEST_F(ClusterCheckpointsTest, RetiresWhoDoesNotFinishInTimeOnAllShards) {
  Shard(0)([](auto& shard) { shard.changed = {{kAnn, 4}, {kBob, 2}}; });
  Shard(1)([this](auto& shard) {
    shard.incomplete = [this](const std::vector<ClientStep>&, const std::vector<ClientId>& gone) {
      clock_.Advance(absl::Seconds(6));
      return gone.empty() ? std::vector<ClientStep>{{kBob, 0}} : std::vector<ClientStep>();
    };
  });
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->evicted, ElementsAre(kBob));
  ASSERT_EQ(taken->steps.size(), 1u);
  EXPECT_EQ(taken->steps[0].client, kAnn);
  for (int i = 0; i < 3; ++i) {
    Shard(i)([](auto& shard) { EXPECT_THAT(shard.closed, ElementsAre(kBob)); });
  }
}

// Its rows hold a part of his step, whatever became of the checkpoint, and of the coordinator.
TEST_F(ClusterCheckpointsTest, WhoWasRetiredForNothingIsNamedByTheNextOne) {
  Shard(0)([](auto& shard) { shard.changed = {{kAnn, 4}, {kBob, 2}}; });
  Shard(1)([this](auto& shard) {
    shard.incomplete = [this](const std::vector<ClientStep>&, const std::vector<ClientId>& gone) {
      clock_.Advance(absl::Seconds(6));
      return gone.empty() ? std::vector<ClientStep>{{kBob, 0}} : std::vector<ClientStep>();
    };
    shard.cut_failure = absl::UnavailableError("disk full");
  });
  EXPECT_TRUE(absl::IsUnavailable(Take().status()));
  Open();
  Shard(0)([](auto& shard) { shard.changed = {{kAnn, 4}}; });
  Shard(1)([](auto& shard) {
    shard.incomplete = nullptr;
    shard.cut_failure = absl::OkStatus();
  });
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->evicted, ElementsAre(kBob));
  // Once.
  EXPECT_THAT(Take()->evicted, IsEmpty());
}

TEST_F(ClusterCheckpointsTest, AFailedCutLetsStepsGoOnAndCommitsNothing) {
  Shard(1)([](auto& shard) { shard.cut_failure = absl::UnavailableError("disk full"); });
  const auto taken = Take();
  EXPECT_TRUE(absl::IsUnavailable(taken.status()));
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr("cutting cluster checkpoint 1 failed on 1 of 3 shards"));
  for (int i = 0; i < 3; ++i) {
    Shard(i)([](auto& shard) { EXPECT_EQ(shard.frozen, 0u); });
  }
  EXPECT_THAT(Committed(), IsEmpty());
  Shard(1)([](auto& shard) { shard.cut_failure = absl::OkStatus(); });
  // A number is never used again: parts of it may be lying about.
  EXPECT_EQ(Take()->checkpoint_id, 2u);
}

// What has broken the checkpoint breaks the word that it is over, too: trainers would stand still.
TEST_F(ClusterCheckpointsTest, AFreezeIsEndedWhereItsEndDoesNotArriveAtOnce) {
  Shard(0)([](auto& shard) {
    // From the freeze on.
    shard.incomplete = [&shard](const std::vector<ClientStep>&, const std::vector<ClientId>&) {
      shard.cut_failure = absl::UnavailableError("connection reset");
      return std::vector<ClientStep>();
    };
  });
  for (int i = 1; i < 3; ++i) {
    Shard(i)([](auto& shard) {
      shard.cut_failure = absl::UnavailableError("connection reset");
      shard.aborts_lost = 3;
    });
  }
  EXPECT_TRUE(absl::IsUnavailable(Take().status()));
  for (int i = 0; i < 3; ++i) {
    Shard(i)([](auto& shard) { EXPECT_EQ(shard.frozen, 0u); });
  }
}

TEST_F(ClusterCheckpointsTest, APartThatIsNotWrittenIsNotCommitted) {
  Shard(2)([](auto& shard) {
    shard.incomplete = [&shard](const std::vector<ClientStep>&, const std::vector<ClientId>&) {
      shard.failure = absl::UnavailableError("gone");  // from here on
      return std::vector<ClientStep>();
    };
  });
  EXPECT_TRUE(absl::IsUnavailable(Take().status()));
  EXPECT_THAT(Committed(), IsEmpty());
}

// Not even for a moment: whoever starts then would take it for whole.
TEST_F(ClusterCheckpointsTest, NothingIsCommittedWhileAShardWrites) {
  int asked = 0;
  bool committed = false;
  Shard(2)([&](auto& shard) {
    shard.on_progress = [&](PartProgress& progress) {
      if (++asked < 4) progress.state = PartProgress::State::kWriting;
      const std::filesystem::path manifests = directory_ + "/checkpoints";
      for (const auto& entry : std::filesystem::directory_iterator(manifests)) {
        committed |= entry.path().filename().string().rfind("MANIFEST", 0) == 0;
      }
    };
  });
  ASSERT_TRUE(Take().ok());
  EXPECT_EQ(asked, 4);
  EXPECT_FALSE(committed);
  EXPECT_THAT(Committed(), ElementsAre(1));
}

TEST_F(ClusterCheckpointsTest, APartThatCouldNotBeWrittenIsNotCommitted) {
  Shard(2)([](auto& shard) {
    shard.on_progress = [](PartProgress& progress) {
      progress.state = PartProgress::State::kFailed;
      progress.error = "disk full";
    };
  });
  const auto taken = Take();
  EXPECT_TRUE(absl::IsUnavailable(taken.status()));
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("disk full"));
  EXPECT_THAT(Committed(), IsEmpty());
}

TEST_F(ClusterCheckpointsTest, KeepsTheNewestAndGoesOnCountingAfterARestart) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Take().ok());
  EXPECT_THAT(Committed(), ElementsAre(4, 3));
  Shard(0)([](auto& shard) { EXPECT_EQ(shard.cuts.size(), 2u); });
  Open();
  EXPECT_EQ(Take()->checkpoint_id, 5u);
  EXPECT_THAT(*checkpoints_->Prune(map_, 1), ElementsAre(4));
  EXPECT_THAT(Committed(), ElementsAre(5));
}

TEST_F(ClusterCheckpointsTest, EverySoManyThOneHasAllRows) {
  Open(/*full_every=*/3);
  std::vector<uint64_t> bases;
  for (int i = 0; i < 7; ++i) bases.push_back(BaseOf(Take()));
  EXPECT_THAT(bases, ElementsAre(0, 1, 2, 0, 4, 5, 0));
  const auto last = checkpoints_->Read(6);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->parts[2].full_checkpoint_id, 4u);
  EXPECT_EQ(last->parts[2].increments, 2);
  EXPECT_EQ(last->parts[2].written_bytes, 50);
  Shard(1)([](auto& shard) {
    EXPECT_EQ(shard.bases[3].files_checksum, 2u) << "as the manifest of its base says";
    EXPECT_EQ(shard.bases[4].checkpoint_id, 0u);
  });
  // A coordinator that was restarted counts on.
  Open(/*full_every=*/3);
  EXPECT_EQ(BaseOf(Take()), 7u);
  EXPECT_EQ(BaseOf(Take()), 8u);
  EXPECT_EQ(BaseOf(Take()), 0u);
  Open(/*full_every=*/1);
  EXPECT_EQ(BaseOf(Take()), 0u);
  EXPECT_EQ(BaseOf(Take()), 0u);
}

TEST_F(ClusterCheckpointsTest, AnIncrementIsBuiltOnTheNewestCommittedOne) {
  EXPECT_EQ(BaseOf(Take()), 0u);
  Shard(1)([](auto& shard) { shard.cut_failure = absl::UnavailableError("disk full"); });
  EXPECT_FALSE(Take().ok());
  Shard(1)([](auto& shard) { shard.cut_failure = absl::OkStatus(); });
  const auto third = Take();
  EXPECT_EQ(third->checkpoint_id, 3u);
  EXPECT_EQ(BaseOf(third), 1u);
}

TEST_F(ClusterCheckpointsTest, AShardMayWriteAllRowsAllTheSame) {
  EXPECT_EQ(BaseOf(Take()), 0u);
  Shard(1)([](auto& shard) { shard.writes_all_rows = true; });
  auto taken = Take();
  EXPECT_EQ(BaseOf(taken, 0), 1u);
  EXPECT_EQ(BaseOf(taken, 1), 0u);
  EXPECT_EQ(taken->parts[1].full_checkpoint_id, 2u);
  EXPECT_EQ(taken->parts[1].increments, 0);
  EXPECT_TRUE(IsIncrement(*taken));
  Shard(1)([](auto& shard) { shard.writes_all_rows = false; });
  taken = Take();
  EXPECT_EQ(taken->parts[0].full_checkpoint_id, 1u);
  EXPECT_EQ(taken->parts[1].full_checkpoint_id, 2u);
  // What nobody asked for is not believed.
  Shard(2)([](auto& shard) {
    shard.on_progress = [](PartProgress& progress) { progress.base_checkpoint_id = 1; };
  });
  EXPECT_TRUE(absl::IsInternal(Take().status()));
}

TEST_F(ClusterCheckpointsTest, AnotherProcessOfAShardWritesAllRows) {
  EXPECT_EQ(BaseOf(Take()), 0u);
  map_.shards[1].generation = 8;
  auto taken = Take();
  EXPECT_EQ(BaseOf(taken, 0), 1u);
  EXPECT_EQ(BaseOf(taken, 1), 0u);
  taken = Take();
  EXPECT_EQ(BaseOf(taken, 0), 2u);
  EXPECT_EQ(BaseOf(taken, 1), 2u);
  map_.topology_version = 2;
  EXPECT_EQ(BaseOf(Take()), 0u);
}

TEST_F(ClusterCheckpointsTest, AfterARestoreAllRowsAreWritten) {
  EXPECT_EQ(BaseOf(Take()), 0u);
  EXPECT_EQ(BaseOf(Take()), 1u);
  ASSERT_TRUE(checkpoints_->Rollback(map_, 2, progress_).ok());
  EXPECT_EQ(BaseOf(Take()), 0u);
  EXPECT_EQ(BaseOf(Take()), 3u);
}

TEST_F(ClusterCheckpointsTest, OtherModelsAreNotBuiltOnTheOldOnes) {
  std::vector<ModelSpec> models = {TestModel("m")};
  const auto take = [&] {
    return checkpoints_->Take(
        map_, [&](Manifest& manifest) { manifest.models = models; }, [] {}, progress_);
  };
  EXPECT_EQ(BaseOf(take()), 0u);
  EXPECT_EQ(BaseOf(take()), 1u);
  models.push_back(TestModel("other"));
  EXPECT_EQ(BaseOf(take()), 0u);
}

// A rotten file may be one that all later ones share.
TEST_F(ClusterCheckpointsTest, NothingIsBuiltOnWhatIsDamagedOrSharesWithIt) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Take().ok());
  ASSERT_TRUE(checkpoints_->MarkDamage(2, "shard 1: a file is gone").ok());
  EXPECT_EQ(BaseOf(Take()), 0u);
  ASSERT_TRUE(checkpoints_->MarkDamage(3, "shard 1: a file is gone").ok());
  EXPECT_EQ(BaseOf(Take()), 4u) << "4 shares nothing with what is damaged";
  ASSERT_TRUE(checkpoints_->MarkDamage(5, "shard 1: a file is gone").ok());
  EXPECT_EQ(BaseOf(Take()), 0u);
}

TEST_F(ClusterCheckpointsTest, GoesBackOnlyToWhatIsWholeOnAllShards) {
  ASSERT_TRUE(Take().ok());
  ASSERT_TRUE(Take().ok());
  Shard(1)([](auto& shard) { shard.cuts[2].files_checksum = 99; });
  EXPECT_TRUE(absl::IsDataLoss(checkpoints_->Rollback(map_, 0, progress_).status()));
  for (int i = 0; i < 3; ++i) {
    Shard(i)([](auto& shard) { EXPECT_THAT(shard.rolled_back, IsEmpty()); });
  }
  EXPECT_EQ(checkpoints_->restore_count(), 0u);
  const auto older = checkpoints_->Rollback(map_, 1, progress_);
  ASSERT_TRUE(older.ok()) << older.status();
  for (int i = 0; i < 3; ++i) {
    Shard(i)([](auto& shard) { EXPECT_THAT(shard.rolled_back, ElementsAre(1)); });
  }
  EXPECT_EQ(checkpoints_->restore_count(), 1u);
  Open();
  EXPECT_EQ(checkpoints_->restore_count(), 1u);
}

TEST_F(ClusterCheckpointsTest, PassesOverWhatIsKnownToBeDamaged) {
  EXPECT_TRUE(absl::IsNotFound(checkpoints_->NewestWhole().status()));
  ASSERT_TRUE(Take().ok());
  ASSERT_TRUE(Take().ok());
  EXPECT_EQ(checkpoints_->NewestWhole()->checkpoint_id, 2u);
  ASSERT_TRUE(checkpoints_->MarkDamage(2, "shard 1: a file is gone\nand more").ok());
  Open();  // a mark survives its coordinator
  EXPECT_EQ(checkpoints_->Damage(2), "shard 1: a file is gone and more");
  EXPECT_EQ(checkpoints_->List()->front().damage, "shard 1: a file is gone and more");
  const auto choice = checkpoints_->NewestWhole();
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->checkpoint_id, 1u);
  EXPECT_THAT(choice->skipped, ElementsAre(2));
  ASSERT_TRUE(checkpoints_->MarkDamage(1, "shard 0: too").ok());
  const auto none = checkpoints_->NewestWhole();
  EXPECT_TRUE(absl::IsDataLoss(none.status())) << none.status();
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("shard 1: a file is gone"));
  ASSERT_TRUE(checkpoints_->MarkDamage(2, "").ok());
  EXPECT_EQ(checkpoints_->NewestWhole()->checkpoint_id, 2u);
  // A mark goes with its checkpoint: the number may come back.
  ASSERT_TRUE(checkpoints_->Prune(map_, 1).ok());
  EXPECT_EQ(checkpoints_->Damage(1), "");
}

TEST_F(ClusterCheckpointsTest, ADamagedMarkIsAMark) {
  ASSERT_TRUE(Take().ok());
  ASSERT_TRUE(checkpoints_->MarkDamage(1, "shard 0: gone").ok());
  std::filesystem::resize_file(directory_ + "/checkpoints/DAMAGED-00000000000000000001", 9);
  EXPECT_NE(checkpoints_->Damage(1), "");
}

TEST_F(ClusterCheckpointsTest, TakesInACopyThatIsWholeOnAllShards) {
  ASSERT_TRUE(Take().ok());
  const auto text = checkpoints_->Text(0);
  ASSERT_TRUE(text.ok()) << text.status();
  // It is here already.
  EXPECT_TRUE(checkpoints_->Adopt(map_, *text, progress_).ok());
  std::filesystem::remove_all(directory_);
  Open();
  EXPECT_THAT(Committed(), IsEmpty());
  Shard(2)([](auto& shard) { shard.cuts[1].files_checksum = 99; });
  EXPECT_TRUE(absl::IsDataLoss(checkpoints_->Adopt(map_, *text, progress_).status()));
  EXPECT_THAT(Committed(), IsEmpty());
  Shard(2)([](auto& shard) { shard.cuts[1].files_checksum = 1; });
  const auto adopted = checkpoints_->Adopt(map_, *text, progress_);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(*checkpoints_->Text(1), *text);
  // The next one has a number of its own.
  EXPECT_EQ(Take()->checkpoint_id, 2u);
  EXPECT_TRUE(absl::IsDataLoss(checkpoints_->Adopt(map_, *text + "x", progress_).status()));
}

TEST_F(ClusterCheckpointsTest, ACopyTakesNobodysNumber) {
  ASSERT_TRUE(Take().ok());
  const std::string text = *checkpoints_->Text(1);
  std::filesystem::remove_all(directory_);
  Open();
  clock_.Advance(absl::Seconds(1));
  ASSERT_TRUE(Take().ok());
  ASSERT_NE(*checkpoints_->Text(1), text);
  EXPECT_TRUE(absl::IsAlreadyExists(checkpoints_->Adopt(map_, text, progress_).status()));
}

TEST_F(ClusterCheckpointsTest, RefusesOneOfAnotherNumberOfShards) {
  ASSERT_TRUE(Take().ok());
  map_.shards.pop_back();
  EXPECT_EQ(ReasonOf(checkpoints_->Verify(map_, 1, progress_).status()), reason::kShardsChanged);
  EXPECT_EQ(ReasonOf(checkpoints_->Rollback(map_, 1, progress_).status()), reason::kShardsChanged);
}

TEST_F(ClusterCheckpointsTest, SaysWhenThereIsNone) {
  const auto read = checkpoints_->Read(0);
  EXPECT_TRUE(absl::IsNotFound(read.status()));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("dslide checkpoint create"));
}

TEST(CheckpointScheduleTest, ReadsItsWords) {
  EXPECT_EQ(ParseCheckpointSchedule("off")->mode, CheckpointSchedule::Mode::kOff);
  EXPECT_EQ(ParseCheckpointSchedule("auto")->mode, CheckpointSchedule::Mode::kAuto);
  const auto fixed = ParseCheckpointSchedule("90s");
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->mode, CheckpointSchedule::Mode::kFixed);
  EXPECT_EQ(fixed->PauseAfter(absl::Hours(9)), absl::Seconds(90));
  for (const char* bad : {"", "often", "10ms", "-1s"}) {
    const auto parsed = ParseCheckpointSchedule(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << bad;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("off, auto, or a duration"));
  }
}

TEST(CheckpointScheduleTest, ReadsTheIntervalOfScrubbing) {
  EXPECT_EQ(*ParseScrubInterval("off"), absl::ZeroDuration());
  EXPECT_EQ(*ParseScrubInterval("24h"), absl::Hours(24));
  for (const char* bad : {"", "auto", "10ms", "-1s"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseScrubInterval(bad).status())) << bad;
  }
}

// One of 8 s with all rows and three increments of 1 s: 11 s / 4.
TEST(CheckpointScheduleTest, ReckonsWithTheMeanOfOneRound) {
  CheckpointCosts costs(4);
  EXPECT_EQ(costs.Mean(), absl::ZeroDuration());
  costs.Add(absl::Seconds(8));
  EXPECT_EQ(costs.Mean(), absl::Seconds(8));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) costs.Add(absl::Seconds(1));
    EXPECT_EQ(costs.Mean(), absl::Milliseconds(2750));
    costs.Add(absl::Seconds(8));
    EXPECT_EQ(costs.Mean(), absl::Milliseconds(2750));
  }
}

// sqrt(2 * 2 s * 3600 s) = 120 s.
TEST(CheckpointScheduleTest, TakesThemAsOftenAsItPays) {
  const auto schedule = ParseCheckpointSchedule("auto");
  EXPECT_EQ(schedule->PauseAfter(absl::Seconds(2)), absl::Seconds(120));
  EXPECT_EQ(schedule->PauseAfter(absl::ZeroDuration()), CheckpointSchedule::kShortest);
  EXPECT_EQ(schedule->PauseAfter(absl::Hours(100)), CheckpointSchedule::kLongest);
}

}  // namespace
}  // namespace dslide::coordinator
