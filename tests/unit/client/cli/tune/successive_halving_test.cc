#include "client/cli/tune/successive_halving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace dslide::cli {
namespace {

using ::testing::ElementsAre;

// Measures until the end or `limit`; says which trials, by rung.
std::vector<std::vector<int64_t>> Drive(SuccessiveHalving& halving, int64_t rungs, int64_t limit,
                                        const std::function<double(TrialAtRung)>& quality) {
  std::vector<std::vector<int64_t>> trials(static_cast<size_t>(rungs));
  for (int64_t i = 0; i < limit; ++i) {
    const std::optional<TrialAtRung> next = halving.Next();
    if (!next.has_value()) break;
    trials[static_cast<size_t>(next->rung)].push_back(next->trial);
    halving.Record(quality(*next));
  }
  return trials;
}

double ByNumber(TrialAtRung at) { return static_cast<double>(at.trial); }

TEST(SuccessiveHalvingTest, AThirdOfTheOthersClimbsAndTheFirstWithThem) {
  SuccessiveHalving halving({.rungs = 3, .trials = 13});
  const auto trials = Drive(halving, 3, 100, ByNumber);
  EXPECT_EQ(trials[0].size(), 13u);
  EXPECT_THAT(trials[1], ElementsAre(0, 12, 11, 10, 9));  // the best first
  EXPECT_THAT(trials[2], ElementsAre(0, 12));
  EXPECT_EQ(halving.Leader(), (TrialAtRung{.trial = 12, .rung = 2}));
  EXPECT_THAT(halving.Left(), ElementsAre(0, 0, 0));
}

TEST(SuccessiveHalvingTest, TheLeaderIsNeverWorseThanTheFirst) {
  SuccessiveHalving halving({.rungs = 2, .trials = 7});
  // The others are better on few points alone.
  Drive(halving, 2, 100,
        [](TrialAtRung at) { return at.rung == 0 ? ByNumber(at) : -ByNumber(at); });
  EXPECT_EQ(halving.Leader(), (TrialAtRung{.trial = 0, .rung = 1}));
}

TEST(SuccessiveHalvingTest, AmongEqualsTheSmallerNumberIsTheBetter) {
  SuccessiveHalving halving({.rungs = 2, .trials = 7});
  const auto trials = Drive(halving, 2, 100, [](TrialAtRung) { return 0.5; });
  EXPECT_THAT(trials[1], ElementsAre(0, 1, 2));
  EXPECT_EQ(halving.Leader(), (TrialAtRung{.trial = 0, .rung = 1}));
}

TEST(SuccessiveHalvingTest, WhoStopsEarlyHasTheBestOfTheHighestRungThatComparesAny) {
  SuccessiveHalving halving({.rungs = 2, .trials = 7});
  EXPECT_EQ(halving.Leader(), TrialAtRung());
  EXPECT_THAT(halving.Left(), ElementsAre(7, 3));
  Drive(halving, 2, 8, ByNumber);  // the first alone has climbed
  EXPECT_EQ(halving.Leader(), (TrialAtRung{.trial = 6, .rung = 0}));
  EXPECT_THAT(halving.Left(), ElementsAre(0, 2));
  Drive(halving, 2, 1, ByNumber);
  EXPECT_EQ(halving.Leader(), (TrialAtRung{.trial = 6, .rung = 1}));
}

TEST(SuccessiveHalvingTest, BracketsOfNewTrialsFollowWithoutEnd) {
  SuccessiveHalving halving({.rungs = 2});
  const auto trials = Drive(halving, 2, 14, ByNumber);
  EXPECT_THAT(trials[0], ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  // The first is measured once a rung; a later bracket goes without it.
  EXPECT_THAT(trials[1], ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(halving.Left(), ElementsAre(3, 1));
}

TEST(SuccessiveHalvingTest, RungsFollowTrialsAndPoints) {
  EXPECT_EQ(RungsFor(2, 100000), 1);
  EXPECT_EQ(RungsFor(4, 100000), 2);
  EXPECT_EQ(RungsFor(9, 100000), 2);
  EXPECT_EQ(RungsFor(10, 100000), 3);
  EXPECT_EQ(RungsFor(1000, 100000), 3);
  EXPECT_EQ(RungsFor(0, 100000), 3);
  EXPECT_EQ(RungsFor(0, 9 * kLeastRungPoints - 1), 2);
  EXPECT_EQ(RungsFor(0, 10), 1);
  EXPECT_EQ(PointsOfRung(9000, 0, 3), 1000);
  EXPECT_EQ(PointsOfRung(9000, 1, 3), 3000);
  EXPECT_EQ(PointsOfRung(9000, 2, 3), 9000);
}

}  // namespace
}  // namespace dslide::cli
