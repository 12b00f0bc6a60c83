#include "client/cli/tune/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dslide::cli {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

DataShape Text() {
  return {.points = 20000,
          .features = 30000,
          .labels = 9000,
          .used_labels = 8000,
          .points_of_label = 10,
          .popularity = 30};
}

DataShape Tags() {
  return {.points = 12920,
          .features = 500,
          .labels = 983,
          .used_labels = 983,
          .points_of_label = 250,
          .popularity = 1304};
}

TEST(SearchSpaceTest, TheFirstTrialIsTheDefault) {
  for (const DataShape& shape : {Text(), Tags()}) {
    const SearchSpace space(shape);
    const TrialSettings first = space.Draw(7, 0);
    EXPECT_TRUE(space.Differences(first).empty());
    EXPECT_TRUE(space.SpecOf(first, shape.points) == DefaultComponents(shape));
  }
}

TEST(SearchSpaceTest, EveryTrialIsValidAndDiffersFromTheDefault) {
  for (const DataShape& shape : {Text(), Tags()}) {
    const SearchSpace space(shape);
    const ModelSpec by_default = DefaultComponents(shape);
    std::set<std::string> varied;
    for (int64_t trial = 1; trial <= 2000; ++trial) {
      const TrialSettings settings = space.Draw(3, trial);
      const ModelSpec spec = space.SpecOf(settings, shape.points);
      ASSERT_TRUE(spec.Validate(/*sizes_known=*/false).ok())
          << trial << ": " << spec.Validate(false);
      ASSERT_FALSE(spec == by_default) << trial;
      ASSERT_FALSE(space.Differences(settings).empty()) << trial;
      for (const auto& [name, value] : space.Differences(settings)) varied.insert(name);
    }
    EXPECT_EQ(varied.size(), 15u) << ::testing::PrintToString(varied);
  }
}

TEST(SearchSpaceTest, ATrialIsAFunctionOfSeedAndNumber) {
  const SearchSpace space(Text());
  EXPECT_EQ(space.Draw(3, 5), SearchSpace(Text()).Draw(3, 5));
  EXPECT_NE(space.Draw(3, 5), space.Draw(3, 6));
  EXPECT_NE(space.Draw(3, 5), space.Draw(4, 5));
}

TEST(SearchSpaceTest, ANetworkThatIsTooLargeIsNeverTried) {
  DataShape large = Text();
  large.labels = 670091;
  const SearchSpace space(large);
  for (int64_t trial = 1; trial <= 200; ++trial) {
    EXPECT_THAT(space.Differences(space.Draw(1, trial)), Not(Contains(Key("network"))));
  }
  DataShape middle = Text();  // 256 MB of floats and moments at a width of 175
  middle.labels = 100000;
  for (int64_t trial = 1; trial <= 200; ++trial) {
    const SearchSpace of_middle(middle);
    const ModelSpec spec = of_middle.SpecOf(of_middle.Draw(1, trial), middle.points);
    const TableSpec* const head = spec.FindRole(TableRole::kHead);
    EXPECT_LE(head == nullptr ? 0 : head->dim, 128);
  }
}

TEST(SearchSpaceTest, ANetworkTrainsAsLongOnFewPoints) {
  const SearchSpace space(Tags());
  const ModelSpec few = space.SpecOf(space.Draw(1, 0), 1280);
  EXPECT_EQ(few.training.max_epochs, 60);  // 300 steps of 256
  EXPECT_EQ(few.FindRole(TableRole::kHead)->optimizer.schedule.decay_steps, 300);
}

}  // namespace
}  // namespace dslide::cli
