#include "tests/simulation/simulation.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/system/log.h"
#include "tests/simulation/bugs.h"

namespace dslide::simulation {
namespace {

class SimulationTest : public ::testing::Test {
 protected:
  void SetUp() override { SetMinLogLevel(LogLevel::kError); }

  static Outcome Run(uint64_t seed, Bug bug = Bug::kNone) {
    Settings settings = SettingsOf(seed);
    settings.bug = bug;
    return Simulate(settings);
  }
};

TEST_F(SimulationTest, KeepsItsPromisesWhateverHappens) {
  FaultCounts faults = {};
  constexpr uint64_t kSeeds = 300;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = Run(seed);
    for (const std::string& violation : outcome.violations) {
      ADD_FAILURE() << "dslide_simulate --seeds 1 --first-seed " << seed
                    << " --trace: " << violation;
    }
    for (size_t i = 0; i < kNumFaults; ++i) faults[i] += outcome.faults[i];
  }
  // A fault that never happens tests nothing.
  for (size_t i = 0; i < kNumFaults; ++i) {
    EXPECT_GT(faults[i], 0) << FaultName(static_cast<Fault>(i));
  }
}

TEST_F(SimulationTest, EqualSeedsGoEqualWays) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Outcome first = Run(seed);
    const Outcome second = Run(seed);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
  }
  EXPECT_NE(Run(1).trace_hash, Run(2).trace_hash);
}

// A simulation that finds nothing is not trusted: here there is something to find.
class PlantedBugTest : public SimulationTest, public ::testing::WithParamInterface<Bug> {};

TEST_P(PlantedBugTest, IsFound) {
  constexpr uint64_t kSeeds = 1000;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (Run(seed, GetParam()).violations.empty()) continue;
    RecordProperty("first_seed", static_cast<int>(seed));
    return;
  }
  ADD_FAILURE() << BugName(GetParam()) << " was not found within " << kSeeds << " seeds";
}

std::string TestName(const ::testing::TestParamInfo<Bug>& info) {
  std::string name;
  for (const char c : BugName(info.param)) name += c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Bugs, PlantedBugTest,
                         ::testing::Values(Bug::kAckBeforeSync, Bug::kDedupLostAtRestart,
                                           Bug::kTornRecordAccepted, Bug::kCutWithoutHolding,
                                           Bug::kPartWithoutCopies, Bug::kSyncRetried,
                                           Bug::kCommitBeforeParts, Bug::kCutWithoutRows,
                                           Bug::kRestoreForgotten, Bug::kJobsForgotten,
                                           Bug::kGreetsTooEarly),
                         TestName);

}  // namespace
}  // namespace dslide::simulation
