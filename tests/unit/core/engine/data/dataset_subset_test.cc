#include "core/engine/data/dataset_subset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/data/sparse_dataset.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;

TEST(DatasetSubsetTest, HoldsTheChosenPointsInTheirOrder) {
  const auto whole = SparseDataset::FromText("data", "4 3 5\n0 1:1\n0,3 0:2\n1 1:3\n4 2:1\n", {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const DatasetSubset subset(**whole, {3, 1});
  EXPECT_EQ(subset.num_points(), 2);
  EXPECT_EQ(subset.num_features(), 3);
  EXPECT_EQ(subset.num_labels(), 5);
  SparseBatch batch;
  ASSERT_TRUE(subset.ReadSamples({0, 1, 0}, &batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre(RowId(4), RowId(0), RowId(3), RowId(4)));
  EXPECT_THAT(batch.values, ElementsAre(1, 2, 1));
}

TEST(DatasetSubsetTest, OtherPointsAreOtherData) {
  const auto whole = SparseDataset::FromText("data", "3 3 5\n0 1:1\n0,3 0:2\n1 1:3\n", {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const DatasetSubset subset(**whole, {0, 1});
  EXPECT_EQ(subset.Fingerprint(), DatasetSubset(**whole, {0, 1}).Fingerprint());
  EXPECT_NE(subset.Fingerprint(), DatasetSubset(**whole, {1, 0}).Fingerprint());
  EXPECT_NE(subset.Fingerprint(), DatasetSubset(**whole, {0, 2}).Fingerprint());
  EXPECT_NE(subset.Fingerprint(), (*whole)->Fingerprint());
  SparseBatch batch;
  const absl::Status outside = subset.ReadSamples({2}, &batch);
  EXPECT_TRUE(absl::IsOutOfRange(outside)) << outside;
  EXPECT_EQ(batch.samples(), 0);
}

}  // namespace
}  // namespace dslide
