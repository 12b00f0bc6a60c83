#include "client/cli/tune/tuning_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPoints = 1000;

TEST(TuningSplitTest, EachPointIsInOnePart) {
  const absl::StatusOr<TuningSplit> split = SplitForTuning(kPoints, {}, 1, TrainingSpec());
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->judged.size(), 50u);
  EXPECT_EQ(split->fitted.size(), 47u);  // a twentieth of the rest
  std::set<int64_t> all(split->judged.begin(), split->judged.end());
  all.insert(split->fitted.begin(), split->fitted.end());
  all.insert(split->training.begin(), split->training.end());
  EXPECT_EQ(all.size(), static_cast<size_t>(kPoints));
  EXPECT_EQ(split->judged.size() + split->fitted.size() + split->training.size(), all.size());
  EXPECT_FALSE(std::is_sorted(split->training.begin(), split->training.end()));
}

TEST(TuningSplitTest, FewPointsArePartOfMoreAndHoldOutTheSame) {
  const TuningSplit split = *SplitForTuning(kPoints, {}, 1, TrainingSpec());
  const std::vector<int64_t> few = split.PointsWith(100);
  const std::vector<int64_t> more = split.PointsWith(300);
  EXPECT_TRUE(std::is_sorted(few.begin(), few.end()));
  EXPECT_TRUE(std::includes(more.begin(), more.end(), few.begin(), few.end()));
  for (const std::vector<int64_t>& points : {few, more}) {
    const TrainingSplit training = split.SplitOf(points);
    std::vector<int64_t> held_out;
    for (size_t i = 0; i < points.size(); ++i) {
      if (training.IsValidation(static_cast<int64_t>(i))) held_out.push_back(points[i]);
    }
    EXPECT_EQ(held_out, split.fitted);
  }
}

TEST(TuningSplitTest, TheSeedDecides) {
  EXPECT_EQ(SplitForTuning(kPoints, {}, 1, TrainingSpec())->training,
            SplitForTuning(kPoints, {}, 1, TrainingSpec())->training);
  EXPECT_NE(SplitForTuning(kPoints, {}, 1, TrainingSpec())->judged,
            SplitForTuning(kPoints, {}, 2, TrainingSpec())->judged);
}

TEST(TuningSplitTest, AGroupIsInOnePart) {
  std::vector<uint32_t> groups;
  for (uint32_t point = 0; point < kPoints; ++point) groups.push_back(point % 100);
  const absl::StatusOr<TuningSplit> split = SplitForTuning(kPoints, groups, 1, TrainingSpec());
  ASSERT_TRUE(split.ok()) << split.status();
  const auto groups_of = [&](const std::vector<int64_t>& points) {
    std::set<uint32_t> found;
    for (const int64_t point : points) found.insert(groups[static_cast<size_t>(point)]);
    return found.size();
  };
  EXPECT_EQ(groups_of(split->judged), 5u);
  EXPECT_EQ(groups_of(split->judged) + groups_of(split->fitted) + groups_of(split->training), 100u);
}

TEST(TuningSplitTest, TooFewPointsAreRefused) {
  EXPECT_THAT(SplitForTuning(10, {}, 1, TrainingSpec()).status().message(),
              HasSubstr("a search needs more points"));
  const std::vector<uint32_t> one(kPoints);
  EXPECT_THAT(SplitForTuning(kPoints, one, 1, TrainingSpec()).status().message(),
              HasSubstr("a search needs smaller groups, or more points"));
}

}  // namespace
}  // namespace dslide::cli
