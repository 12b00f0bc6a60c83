#include "services/coordinator/membership/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MembershipTest : public ::testing::Test {
 protected:
  Ownership MustRegister(const ShardRegistration& request, bool models_exist = false) {
    const auto owner = membership_.Register(request, models_exist);
    EXPECT_TRUE(owner.ok()) << owner.status();
    return owner.value_or(Ownership());
  }
  std::string RefusedBecause(const ShardRegistration& request, bool models_exist = false) {
    const auto owner = membership_.Register(request, models_exist);
    EXPECT_FALSE(owner.ok());
    return ReasonOf(owner.status());
  }

  FakeClock clock_;
  Membership membership_{{.expected_shards = 3}, &clock_};
};

TEST_F(MembershipTest, OrdinalsAreGivenInOrder) {
  EXPECT_EQ(MustRegister(Registration(1, "a:1")).shard, ShardId(0));
  EXPECT_EQ(MustRegister(Registration(2, "b:1", 2)).shard, ShardId(2));
  EXPECT_EQ(MustRegister(Registration(3, "c:1")).shard, ShardId(1));
  EXPECT_EQ(RefusedBecause(Registration(4, "d:1")), "CLUSTER_FULL");
}

TEST_F(MembershipTest, TheMapExistsWhenAllAreThere) {
  MustRegister(Registration(1, "a:1"));
  MustRegister(Registration(2, "b:1"));
  const auto early = membership_.Map();
  EXPECT_EQ(early.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(early.status()), "NOT_ALL_SHARDS");
  EXPECT_THAT(std::string(early.status().message()),
              AllOf(HasSubstr("waiting for 1 of 3"), HasSubstr("start each of them")));
  EXPECT_EQ(membership_.topology_version(), 0u);
  MustRegister(Registration(3, "c:1", 2, 0.5));
  const auto map = membership_.Map();
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->topology_version, 1u);
  EXPECT_EQ(CapacityWeights(map->shards), (std::vector<double>{1.0, 1.0, 0.5}));
  EXPECT_EQ(map->shards[2].address, "c:1");
}

TEST_F(MembershipTest, ARepeatedRegistrationChangesNothing) {
  const Ownership first = MustRegister(Registration(1, "a:1"));
  EXPECT_TRUE(first.is_new);
  const Ownership again = MustRegister(Registration(1, "a:1"));
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(again.shard, first.shard);
  EXPECT_EQ(again.generation, first.generation);
  EXPECT_EQ(RefusedBecause(Registration(1, "a:1", 2)), "BAD_REGISTRATION");
}

TEST_F(MembershipTest, ANewProcessFencesTheOldOne) {
  const Ownership old = MustRegister(Registration(1, "a:1", 0));
  const Ownership young = MustRegister(Registration(2, "b:1", 0));
  EXPECT_EQ(young.generation, old.generation + 1);
  const absl::Status fenced = membership_.Heartbeat(ShardId(0), old.generation, 0, 0);
  EXPECT_EQ(fenced.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(fenced), "FENCED");
  EXPECT_TRUE(membership_.Heartbeat(ShardId(0), young.generation, 0, 0).ok());
  EXPECT_EQ(ReasonOf(membership_.Deregister(ShardId(0), old.generation)), "FENCED");
  // A late repetition of the old process's request must not take the ordinal back.
  EXPECT_EQ(RefusedBecause(Registration(1, "a:1", 0)), "FENCED");
  EXPECT_EQ(membership_.Shards()[0].generation, young.generation);
}

TEST_F(MembershipTest, ARestartedShardGetsItsPlaceByItsAddress) {
  MustRegister(Registration(1, "a:1"));
  MustRegister(Registration(2, "b:1"));
  const Ownership restarted = MustRegister(Registration(3, "a:1"));
  EXPECT_EQ(restarted.shard, ShardId(0));
  EXPECT_EQ(restarted.generation, 2u);
}

TEST_F(MembershipTest, TwoLivingShardsCannotShareAnAddress) {
  MustRegister(Registration(1, "a:1", 0));
  EXPECT_EQ(RefusedBecause(Registration(2, "a:1", 1)), "ADDRESS_IN_USE");
  clock_.Advance(absl::Seconds(4));
  EXPECT_EQ(MustRegister(Registration(2, "a:1", 1)).shard, ShardId(1));
}

TEST_F(MembershipTest, HealthFollowsHeartbeats) {
  const Ownership owner = MustRegister(Registration(1, "a:1"));
  EXPECT_EQ(membership_.Shards()[0].health, ShardHealth::kAlive);
  clock_.Advance(absl::Milliseconds(3001));
  EXPECT_EQ(membership_.Shards()[0].health, ShardHealth::kLost);
  EXPECT_TRUE(membership_.Heartbeat(ShardId(0), owner.generation, 77, 88).ok());
  const ShardInfo view = membership_.Shards()[0];
  EXPECT_EQ(view.health, ShardHealth::kAlive);
  EXPECT_EQ(view.memory_bytes, 77);
  EXPECT_EQ(view.applied_commands, 88);
}

TEST_F(MembershipTest, ALostShardKeepsItsOrdinalUntilSomebodyNeedsIt) {
  const Ownership lost = MustRegister(Registration(1, "a:1"));
  MustRegister(Registration(2, "b:1"));
  MustRegister(Registration(3, "c:1"));
  clock_.Advance(absl::Seconds(10));
  EXPECT_TRUE(membership_.Heartbeat(ShardId(0), lost.generation, 0, 0).ok());  // only slow
  EXPECT_TRUE(membership_.Map().ok());
  EXPECT_EQ(MustRegister(Registration(4, "d:1")).shard, ShardId(1));
}

TEST_F(MembershipTest, ALeftShardIsReplacedFirst) {
  MustRegister(Registration(1, "a:1"));
  const Ownership leaving = MustRegister(Registration(2, "b:1"));
  MustRegister(Registration(3, "c:1"));
  EXPECT_TRUE(membership_.Deregister(leaving.shard, leaving.generation).ok());
  EXPECT_TRUE(membership_.Deregister(leaving.shard, leaving.generation).ok());
  EXPECT_EQ(membership_.Shards()[1].health, ShardHealth::kLeft);
  EXPECT_EQ(ReasonOf(membership_.Heartbeat(leaving.shard, leaving.generation, 0, 0)), "FENCED");
  EXPECT_EQ(RefusedBecause(Registration(2, "b:1")), "FENCED");
  clock_.Advance(absl::Seconds(10));  // now the others are lost, but the left one comes first
  EXPECT_EQ(MustRegister(Registration(4, "d:1")).shard, leaving.shard);
}

TEST_F(MembershipTest, TheMapWaitsForTheSuccessorOfAShardThatHasLeft) {
  MustRegister(Registration(1, "a:1"));
  const Ownership leaving = MustRegister(Registration(2, "b:1"));
  MustRegister(Registration(3, "c:1"));
  ASSERT_TRUE(membership_.Map().ok());
  EXPECT_TRUE(membership_.Deregister(leaving.shard, leaving.generation).ok());
  Membership restarted({.expected_shards = 3}, &clock_);
  ASSERT_TRUE(restarted.Restore(membership_.Record(), /*models_exist=*/true).ok());
  for (const Membership* membership : {&membership_, &restarted}) {
    const absl::Status waiting = membership->Map().status();
    EXPECT_EQ(ReasonOf(waiting), "NOT_ALL_SHARDS");
    EXPECT_THAT(std::string(waiting.message()), HasSubstr("waiting for 1 of 3 shards to register "
                                                          "(missing: 1)"));
  }
  ASSERT_TRUE(restarted.Register(Registration(4, "d:1"), /*models_exist=*/true).ok());
  const auto map = restarted.Map();
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->shards[1].address, "d:1");
}

TEST_F(MembershipTest, MalformedRegistrationsAreRefused) {
  EXPECT_EQ(RefusedBecause(Registration(1, "a:1", 3)), "BAD_REGISTRATION");
  EXPECT_EQ(RefusedBecause(Registration(1, "a:1", -2)), "BAD_REGISTRATION");
  EXPECT_EQ(RefusedBecause(Registration(1, "")), "BAD_REGISTRATION");
  EXPECT_EQ(RefusedBecause(Registration(1, std::string(513, 'x'))), "BAD_REGISTRATION");
  for (const double weight : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(RefusedBecause(Registration(1, "a:1", 0, weight)), "BAD_REGISTRATION") << weight;
  }
  ShardRegistration short_id = Registration(1, "a:1");
  short_id.instance_id = "short";
  EXPECT_EQ(RefusedBecause(short_id), "BAD_REGISTRATION");
  ShardRegistration long_admin = Registration(1, "a:1");
  long_admin.admin_address = std::string(513, 'x');
  EXPECT_EQ(RefusedBecause(long_admin), "BAD_REGISTRATION");
  EXPECT_EQ(ReasonOf(membership_.Heartbeat(ShardId(9), 1, 0, 0)), "BAD_REGISTRATION");
  EXPECT_EQ(ReasonOf(membership_.Heartbeat(ShardId(0), 0, 0, 0)), "BAD_REGISTRATION");
  EXPECT_TRUE(membership_.Shards().empty());
}

TEST_F(MembershipTest, WeightsAreFixedWhileModelsExist) {
  MustRegister(Registration(1, "a:1"));
  MustRegister(Registration(2, "b:1"));
  MustRegister(Registration(3, "c:1"));
  EXPECT_EQ(RefusedBecause(Registration(4, "c:1", 2, 2.0), /*models_exist=*/true),
            "WEIGHT_CHANGED");
  EXPECT_EQ(membership_.Shards()[2].generation, 1u);
  MustRegister(Registration(4, "c:1", 2, 1.0), /*models_exist=*/true);
  EXPECT_EQ(membership_.topology_version(), 1u);
  MustRegister(Registration(5, "c:1", 2, 2.0), /*models_exist=*/false);
  EXPECT_EQ(membership_.topology_version(), 2u);
}

TEST_F(MembershipTest, GenerationsGoOnAboveThoseOfAForgetfulCoordinator) {
  // This one has just started without memory; shard 1 still serves with generation 7.
  const absl::Status unknown = membership_.Heartbeat(ShardId(1), 7, 0, 0);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(unknown), "UNKNOWN_SHARD");
  EXPECT_EQ(MustRegister(Registration(1, "a:1", 1)).generation, 8u);
  EXPECT_EQ(MustRegister(Registration(2, "b:1", 0)).generation, 1u);
}

TEST_F(MembershipTest, TheRecordRestoresOwnershipsAndFences) {
  const Ownership owner = MustRegister(Registration(1, "a:1"));
  MustRegister(Registration(2, "b:1"));
  const Ownership left = MustRegister(Registration(3, "c:1", 2, 0.5));
  EXPECT_TRUE(membership_.Deregister(left.shard, left.generation).ok());

  Membership again({.expected_shards = 3}, &clock_);
  ASSERT_TRUE(again.Restore(membership_.Record(), /*models_exist=*/true).ok());
  EXPECT_EQ(again.Record(), membership_.Record());
  EXPECT_TRUE(again.Heartbeat(owner.shard, owner.generation, 0, 0).ok());
  EXPECT_EQ(again.Shards()[0].health, ShardHealth::kAlive);
  EXPECT_EQ(again.Shards()[2].health, ShardHealth::kLeft);
  EXPECT_EQ(ReasonOf(again.Register(Registration(3, "c:1"), true).status()), "FENCED");
  EXPECT_EQ(again.Register(Registration(4, "c:1", 2, 0.5), true)->generation, 2u);
}

TEST_F(MembershipTest, ARecordOfAnotherSizeIsRefusedWhileModelsExist) {
  for (char i = 0; i < 3; ++i) MustRegister(Registration(static_cast<char>(i + 1), {'a', i}));
  Membership larger({.expected_shards = 4}, &clock_);
  const absl::Status refused = larger.Restore(membership_.Record(), /*models_exist=*/true);
  EXPECT_EQ(ReasonOf(refused), "SHARDS_CHANGED");
  ASSERT_TRUE(larger.Restore(membership_.Record(), /*models_exist=*/false).ok());
  EXPECT_FALSE(larger.Map().ok());
  // A new cluster, but generations and versions do not start over.
  EXPECT_EQ(larger.Register(Registration(9, "x:1", 0), false)->generation, 2u);
}

// Random processes that come, restart, leave and are fenced, over a coordinator that restarts.
class SimulatedMembership {
 public:
  explicit SimulatedMembership(uint64_t seed)
      : rng_(DeriveKey(99, seed)), expected_(static_cast<int64_t>(1 + rng_.NextBelow(4))) {
    Restart();
  }

  void Step() {
    clock_.Advance(absl::Milliseconds(rng_.NextBelow(2000)));
    const uint64_t action = rng_.NextBelow(10);
    if (action < 3 && processes_.size() < 100) {
      StartProcess();
    } else if (action == 3) {
      Restart();
    } else if (!processes_.empty()) {
      Beat(processes_[rng_.NextBelow(processes_.size())], action);
    }
  }

 private:
  struct Process {
    Ownership owner;
    ShardRegistration request;
    bool fenced = false;
  };

  void Restart() {
    auto next =
        std::make_unique<Membership>(MembershipOptions{.expected_shards = expected_}, &clock_);
    if (membership_ != nullptr) {
      EXPECT_TRUE(next->Restore(membership_->Record(), true).ok());
    }
    membership_ = std::move(next);
  }

  void StartProcess() {
    ShardRegistration request = Registration(static_cast<char>(processes_.size() + 1),
                                             absl::StrCat("host:", rng_.NextBelow(6)));
    if (rng_.NextBelow(2) == 0) {
      request.wanted =
          ShardId(static_cast<int32_t>(rng_.NextBelow(static_cast<uint64_t>(expected_))));
    }
    const auto owner = membership_->Register(request, false);
    if (!owner.ok()) return;
    EXPECT_GT(owner->generation, highest_[owner->shard]);
    highest_[owner->shard] = owner->generation;
    for (Process& other : processes_) {
      if (other.owner.shard == owner->shard) other.fenced = true;
    }
    processes_.push_back({*owner, request});
  }

  // A heartbeat, and perhaps a good-bye or a repeated registration after it.
  void Beat(Process& process, uint64_t action) {
    const Ownership& owner = process.owner;
    const absl::Status beat = membership_->Heartbeat(owner.shard, owner.generation, 0, 0);
    EXPECT_EQ(beat.ok(), !process.fenced) << beat;
    if (process.fenced) return;
    if (action == 9) {
      EXPECT_TRUE(membership_->Deregister(owner.shard, owner.generation).ok());
      process.fenced = true;
    } else if (action == 8) {
      const auto again = membership_->Register(process.request, false);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->generation, owner.generation);
    }
  }

  CounterRng rng_;
  const int64_t expected_;
  FakeClock clock_;
  std::unique_ptr<Membership> membership_;
  std::vector<Process> processes_;
  std::map<ShardId, uint64_t> highest_;
};

// Whatever happens in whatever order: at most one owner per ordinal, whose generation is the
// highest ever given there; and whoever lost an ordinal never passes as its owner again.
TEST(MembershipPropertyTest, GenerationsOnlyRiseAndFencedProcessesStayOut) {
  for (uint64_t seed = 1; seed <= 200 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SimulatedMembership world(seed);
    for (int step = 0; step < 200; ++step) world.Step();
  }
}

}  // namespace
}  // namespace dslide::coordinator
