#include "core/spec/tree_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dslide {
namespace {

using ::testing::ElementsAre;

TEST(TreeShape, EveryRowBelongsToOneThing) {
  const TreeShape shape(100, 2, 6, 3);
  EXPECT_THAT(shape.levels(), ElementsAre(3, 6));
  EXPECT_EQ(shape.label_level(), 2);
  std::set<uint32_t> rows;
  for (uint32_t label = 0; label < 100; ++label) {
    rows.insert(shape.CentroidRow(RowId(label)).value());
    for (int64_t tree = 0; tree < 2; ++tree) {
      rows.insert(shape.LabelRow(tree, RowId(label)).value());
    }
  }
  for (int64_t tree = 0; tree < 2; ++tree) {
    for (int64_t cluster = 0; cluster < 8; ++cluster) {
      rows.insert(shape.ClusterRow(tree, 0, cluster).value());
    }
    for (int64_t cluster = 0; cluster < 64; ++cluster) {
      rows.insert(shape.ClusterRow(tree, 1, cluster).value());
    }
  }
  EXPECT_EQ(static_cast<int64_t>(rows.size()), shape.num_rows());
  EXPECT_EQ(*rows.rbegin(), shape.num_rows() - 1);
  EXPECT_EQ(shape.ClusterOf(0, 63), 7);
  EXPECT_EQ(shape.ClusterOf(1, 63), 63);
  EXPECT_EQ(shape.ParentsAt(0), 1);
  EXPECT_EQ(shape.ParentsAt(1), 8);
  EXPECT_EQ(shape.ParentsAt(2), 64);
}

TEST(TreeShape, SmallTrees) {
  EXPECT_THAT(TreeShape(10, 1, 0, 4).levels(), ElementsAre());
  EXPECT_EQ(TreeShape(10, 1, 0, 4).ParentsAt(0), 1);
  EXPECT_THAT(TreeShape(10, 1, 1, 4).levels(), ElementsAre(1));
  EXPECT_THAT(TreeShape(10, 1, 10, 4).levels(), ElementsAre(2, 6, 10));
  EXPECT_EQ(TreeShape::DepthFor(50, 50), 0);
  EXPECT_EQ(TreeShape::DepthFor(51, 25), 1);
  EXPECT_EQ(TreeShape::DepthFor(46057, 50), 10);
}

TEST(TreeShape, PiecesCoverTheLabels) {
  const TreeShape shape(TreeShape::kPieceLabels + 5, 3, 8, 4);
  EXPECT_EQ(shape.pieces(), 2);
  EXPECT_EQ(shape.num_piece_rows(), 8);
  EXPECT_EQ(shape.PieceSize(0), TreeShape::kPieceLabels);
  EXPECT_EQ(shape.PieceSize(1), 5);
  EXPECT_EQ(shape.PieceRow(3, 1), RowId(7));
}

}  // namespace
}  // namespace dslide
