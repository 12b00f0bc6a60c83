#include "core/engine/data/epoch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace dslide {
namespace {

std::vector<int64_t> OrderOf(int64_t points, uint64_t seed, int64_t epoch) {
  const EpochOrder order(points, seed, epoch);
  std::vector<int64_t> result;
  for (int64_t i = 0; i < points; ++i) result.push_back(order.PointAt(i));
  return result;
}

TEST(IndexPermutationTest, IsABijectionWithItsInverseForEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    const IndexPermutation permutation(size, static_cast<uint64_t>(size) * 77);
    std::set<int64_t> images;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t image = permutation.Map(i);
      ASSERT_GE(image, 0);
      ASSERT_LT(image, size);
      ASSERT_TRUE(images.insert(image).second) << "size " << size << " repeats " << image;
      ASSERT_EQ(permutation.Inverse(image), i) << "size " << size;
    }
  }
}

TEST(IndexPermutationTest, WorksAtTheLargestSize) {
  const int64_t size = int64_t{1} << 62;
  const IndexPermutation permutation(size, 5);
  for (const int64_t i : {int64_t{0}, int64_t{1}, size / 3, size - 1}) {
    const int64_t image = permutation.Map(i);
    EXPECT_GE(image, 0);
    EXPECT_LT(image, size);
    EXPECT_EQ(permutation.Inverse(image), i);
  }
}

TEST(EpochOrderTest, IsNeverTheFileOrder) {
  for (int64_t points = 2; points <= 12; ++points) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const std::vector<int64_t> order = OrderOf(points, seed, 0);
      ASSERT_FALSE(std::is_sorted(order.begin(), order.end()))
          << points << " points, seed " << seed;
    }
  }
  EXPECT_THAT(OrderOf(1, 3, 0), testing::ElementsAre(0));
}

TEST(EpochOrderTest, DependsOnSeedAndEpochAlone) {
  EXPECT_EQ(OrderOf(1000, 7, 3), OrderOf(1000, 7, 3));
  EXPECT_NE(OrderOf(1000, 7, 3), OrderOf(1000, 7, 4));
  EXPECT_NE(OrderOf(1000, 7, 3), OrderOf(1000, 8, 3));
}

TEST(EpochOrderTest, IsTheSameOnEveryMachineAndInEveryVersion) {
  // A trainer of a later version may resume an epoch: these numbers must not change.
  EXPECT_THAT(OrderOf(10, 1, 0), testing::ElementsAre(8, 5, 3, 0, 9, 1, 7, 6, 2, 4));
  EXPECT_THAT((std::vector<int64_t>{EpochOrder(17819068, 42, 9).PointAt(0),
                                    EpochOrder(17819068, 42, 9).PointAt(17819067)}),
              testing::ElementsAre(4806475, 2264807));
}

TEST(EpochOrderTest, SpreadsNeighbouringPositions) {
  // Of 10,000 positions cut into 10 runs, each run must hold about a tenth of each tenth of the
  // points: 100 expected, standard deviation below 10; 60 is 4 standard deviations off.
  const std::vector<int64_t> order = OrderOf(10000, 11, 2);
  int64_t cells[10][10] = {};
  for (size_t i = 0; i < order.size(); ++i) ++cells[i / 1000][order[i] / 1000];
  for (const auto& row : cells) {
    for (const int64_t count : row) {
      EXPECT_GT(count, 60);
      EXPECT_LT(count, 140);
    }
  }
}

TEST(TrainingSplitTest, PartsAreDisjointAndTogetherAll) {
  const absl::StatusOr<TrainingSplit> split = TrainingSplit::Create(1001, 9, 0.1, 0);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->num_validation(), 100);
  EXPECT_EQ(split->num_training(), 901);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < split->num_validation(); ++i) {
    const int64_t point = split->ValidationPoint(i);
    EXPECT_TRUE(split->IsValidation(point));
    EXPECT_TRUE(seen.insert(point).second);
  }
  for (int64_t i = 0; i < split->num_training(); ++i) {
    const int64_t point = split->TrainingPoint(i);
    EXPECT_FALSE(split->IsValidation(point));
    EXPECT_TRUE(seen.insert(point).second);
  }
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 1000);
}

TEST(TrainingSplitTest, HonoursTheBoundAndZeroFraction) {
  EXPECT_EQ(TrainingSplit::Create(1000, 1, 0.2, 50)->num_validation(), 50);
  EXPECT_EQ(TrainingSplit::Create(10, 1, 0.05, 50)->num_validation(), 0);
  const absl::StatusOr<TrainingSplit> none = TrainingSplit::Create(10, 1, 0.0, 50);
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(none->TrainingPoint(i), i);
    EXPECT_FALSE(none->IsValidation(i));
  }
  EXPECT_EQ(TrainingSplit::All(10).num_training(), 10);
}

TEST(TrainingSplitTest, HoldsOutWhatItIsTold) {
  const std::vector<uint8_t> held_out = {0, 1, 0, 0, 1};
  const TrainingSplit split = TrainingSplit::FromHeldOut(held_out);
  EXPECT_EQ(split.num_points(), 5);
  EXPECT_EQ(split.num_training(), 3);
  EXPECT_EQ(split.ValidationPoint(0), 1);
  EXPECT_EQ(split.ValidationPoint(1), 4);
  EXPECT_EQ(split.TrainingPoint(0), 0);
  EXPECT_EQ(split.TrainingPoint(2), 3);
  for (int64_t point = 0; point < 5; ++point) {
    EXPECT_EQ(split.IsValidation(point), held_out[static_cast<size_t>(point)] != 0);
  }
}

TEST(TrainingSplitTest, RefusesValuesOutOfRange) {
  EXPECT_EQ(TrainingSplit::Create(10, 1, 0.6, 0).status().message(),
            "validation fraction 0.6 is outside [0, 0.5]");
  EXPECT_FALSE(TrainingSplit::Create(10, 1, std::nan(""), 0).ok());
  EXPECT_EQ(TrainingSplit::Create(0, 1, 0.1, 0).status().message(),
            "cannot split 0 points; at least 1 is needed");
  EXPECT_FALSE(TrainingSplit::Create(10, 1, 0.1, -1).ok());
}

}  // namespace
}  // namespace dslide
