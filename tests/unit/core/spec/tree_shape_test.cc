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

TEST(TreeShape, GrowthMovesNoRow) {
  const TreeShape before(100, 2, 6, 3);
  const TreeShape after({.now = 130, .base = 100}, 2, 6, 3);
  std::set<uint32_t> rows;
  for (uint32_t label = 0; label < 130; ++label) {
    rows.insert(after.CentroidRow(RowId(label)).value());
    for (int64_t tree = 0; tree < 2; ++tree) {
      rows.insert(after.LabelRow(tree, RowId(label)).value());
      if (label >= 100) continue;
      EXPECT_EQ(after.CentroidRow(RowId(label)), before.CentroidRow(RowId(label)));
      EXPECT_EQ(after.LabelRow(tree, RowId(label)), before.LabelRow(tree, RowId(label)));
    }
  }
  for (int64_t tree = 0; tree < 2; ++tree) {
    for (int64_t level = 0; level < 2; ++level) {
      for (int64_t cluster = 0; cluster < 8 << (3 * level); ++cluster) {
        EXPECT_EQ(after.ClusterRow(tree, level, cluster), before.ClusterRow(tree, level, cluster));
        rows.insert(after.ClusterRow(tree, level, cluster).value());
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(rows.size()), after.num_rows());
  EXPECT_EQ(*rows.rbegin(), after.num_rows() - 1);
}

TEST(TreeShape, PiecesOfLaterLabelsLieBehindAll) {
  constexpr int64_t kPiece = TreeShape::kPieceLabels;
  const TreeShape before(kPiece + 5, 3, 8, 4);
  const TreeShape after({.now = 3 * kPiece - 1, .base = kPiece + 5}, 3, 8, 4);
  EXPECT_EQ(after.num_piece_rows(), 12);
  std::set<uint32_t> rows;
  for (int64_t tree = 0; tree <= 3; ++tree) {
    for (int64_t piece = 0; piece < 3; ++piece) {
      const RowId row = after.PieceRow(tree, piece);
      rows.insert(row.value());
      EXPECT_EQ(after.PieceAt(row).tree, tree);
      EXPECT_EQ(after.PieceAt(row).piece, piece);
      if (piece < 2) {
        EXPECT_EQ(row, before.PieceRow(tree, piece));
      }
    }
  }
  EXPECT_EQ(rows.size(), 12u);
  EXPECT_EQ(*rows.rbegin(), 11u);
  // What lacks later labels is a piece all the same, and so is one that was never put.
  EXPECT_TRUE(after.FitsPiece(1, 4 * 5));
  EXPECT_TRUE(after.FitsPiece(1, 4 * kPiece));
  EXPECT_FALSE(after.FitsPiece(1, 4 * 4));
  EXPECT_FALSE(after.FitsPiece(1, 4 * 5 + 2));
  EXPECT_TRUE(after.FitsPiece(2, 0));
  EXPECT_FALSE(after.FitsPiece(2, 4 * kPiece));
  EXPECT_FALSE(before.FitsPiece(1, 4 * 6));
}

}  // namespace
}  // namespace dslide
