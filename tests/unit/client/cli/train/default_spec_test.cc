#include "client/cli/train/default_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/data/sparse_dataset.h"

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;

// Like tags of many web pages.
DataShape ManyPointsALabel() {
  return {.points = 12920,
          .features = 500,
          .labels = 983,
          .used_labels = 983,
          .points_of_label = 250,
          .popularity = 1304};
}

TEST(DefaultSpecTest, ANetworkLearnsWhereLabelsHavePoints) {
  DataShape shape = ManyPointsALabel();
  const ModelSpec wide = DefaultComponents(shape);
  ASSERT_EQ(wide.tables.size(), 6u);
  EXPECT_EQ(wide.tables[0].dim, 256);
  EXPECT_EQ(wide.tables[1].dim, 256);
  EXPECT_EQ(wide.tables[1].head.max_active, 0);  // the memory names the active rows
  EXPECT_EQ(wide.training.max_epochs, 6);
  EXPECT_EQ(wide.tables[1].optimizer.schedule.decay_steps, 6 * 51);
  EXPECT_THAT(ExplainComponents(shape, wide),
              HasSubstr("a network of width 256 beside them for 6 epochs: a label that a point "
                        "carries has 1304 points on average"));

  shape.points_of_label = 5;
  EXPECT_EQ(DefaultComponents(shape).tables[0].dim, 128);
  // As many steps as move it from where it starts.
  shape.points = 9000;
  EXPECT_EQ(DefaultComponents(shape).training.max_epochs, 8);
}

TEST(DefaultSpecTest, NoNetworkWhereItBringsNothingOrIsTooLarge) {
  DataShape rare = ManyPointsALabel();
  rare.popularity = 20;
  const ModelSpec without = DefaultComponents(rare);
  EXPECT_EQ(without.FindRole(TableRole::kHead), nullptr);
  EXPECT_THAT(ExplainComponents(rare, without), HasSubstr("no network: a label that a point"));
  // But more of the points that know it.
  EXPECT_EQ(without.FindRole(TableRole::kMemory)->memory.neighbours, 200);
  EXPECT_EQ(without.FindRole(TableRole::kMemory)->memory.candidates, 400);
  DataShape large = ManyPointsALabel();
  large.labels = 670091;
  const ModelSpec small = DefaultComponents(large);
  EXPECT_EQ(small.FindRole(TableRole::kHead), nullptr);
  EXPECT_THAT(ExplainComponents(large, small), HasSubstr("no network: it would take 2060 MB"));
  DataShape few = ManyPointsALabel();
  few.points = 4880;
  const ModelSpec quick = DefaultComponents(few);
  EXPECT_EQ(quick.FindRole(TableRole::kHead), nullptr);
  EXPECT_THAT(ExplainComponents(few, quick),
              HasSubstr("4880 points, fewer than 8192, teach it too little"));
}

TEST(DefaultSpecTest, RowsOfPointsWithManyFeaturesAreHeldBack) {
  DataShape shape = ManyPointsALabel();
  const auto cost = [&](double features_per_point) {
    shape.features_per_point = features_per_point;
    return DefaultComponents(shape).FindRole(TableRole::kLinear)->linear.cost;
  };
  EXPECT_EQ(cost(0), 1);  // unknown
  EXPECT_EQ(cost(9), 1);
  EXPECT_EQ(cost(19), 0.5);
  EXPECT_EQ(cost(69), 0.25);
  shape.popularity = 20;
  EXPECT_EQ(cost(69), 1);
}

TEST(DefaultSpecTest, RowsAreMadeAgainWhereLabelsHaveFewPoints) {
  const auto refit = [](const DataShape& shape) {
    return DefaultComponents(shape).FindRole(TableRole::kLinear)->linear.refit;
  };
  DataShape shape = ManyPointsALabel();
  EXPECT_FALSE(refit(shape));
  shape.points_of_label = 5;
  EXPECT_TRUE(refit(shape));
  shape.labels = 670091;  // no network, and trees take most of the time
  EXPECT_FALSE(refit(shape));
  shape.popularity = 20;
  EXPECT_TRUE(refit(shape));
}

TEST(DefaultSpecTest, TheShapeIsThatOfTheLabels) {
  const auto data = SparseDataset::FromText("data", "4 3 5\n0 1:1\n0,3 0:2\n0 1:1\n3 2:1\n", {});
  ASSERT_TRUE(data.ok()) << data.status();
  const DataShape shape = *ShapeOf(**data, *CountLabels(**data, Parallelism{}));
  EXPECT_EQ(shape.used_labels, 2);
  EXPECT_EQ(shape.points_of_label, 2.5);
  EXPECT_EQ(shape.popularity, (9.0 + 4.0) / 5);
  EXPECT_EQ(shape.features_per_point, 1);
}

}  // namespace
}  // namespace dslide::cli
