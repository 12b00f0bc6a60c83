// How evenly rows fall into buckets, for both hash families.

#include <memory>
#include <vector>

#include "core/engine/lsh/hash_index.h"
#include "core/engine/lsh/row_center.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

constexpr int64_t kDim = 24;

class BucketLoadTest : public ::testing::TestWithParam<HashFamilyKind> {
 protected:
  std::unique_ptr<HashIndex> Built(const TestRows& rows) const {
    auto index = *HashIndex::Create(spec_, kDim);
    index->Build(rows, {}, Refresh::kNo, Parallelism{1});
    return index;
  }

  // By counting: each row's own bucket, in all tables.
  double MeanOwnBucket(const HashIndex& index, const TestRows& rows) const {
    const RowCenter center = RowCenter::Measure(rows, spec_, Parallelism{});
    double found = 0;
    std::vector<float> centered(kDim);
    std::vector<float> extras(2);
    std::vector<uint32_t> prints(static_cast<size_t>(spec_.num_tables));
    for (int64_t row = 0; row < rows.num_rows(); ++row) {
      center.Center(rows.weights[row].data(), rows.biases[row], centered.data(), extras.data());
      index.family().HashRows(centered, extras, 1, Parallelism{}, absl::MakeSpan(prints));
      for (int64_t table = 0; table < spec_.num_tables; ++table) {
        found += static_cast<double>(index.Bucket(table, prints[table]).size());
      }
    }
    return found / static_cast<double>(rows.num_rows() * spec_.num_tables);
  }

  HashSpec spec_ = CoarseSpec(GetParam());
};

TEST_P(BucketLoadTest, IsWhatCountingGives) {
  const TestRows rows = TestRows::Random(300, kDim, 11);
  const auto index = Built(rows);
  const BucketLoad all = index->MeasureBuckets(1000);
  EXPECT_EQ(all.rows_sampled, 300);
  EXPECT_NEAR(all.rows_per_bucket, MeanOwnBucket(*index, rows), 1e-9);
  const BucketLoad some = index->MeasureBuckets(60);
  EXPECT_EQ(some.rows_sampled, 60);
  EXPECT_NEAR(some.skew, all.skew, 0.5 * all.skew);
}

TEST_P(BucketLoadTest, EqualRowsAreTheLargestSkew) {
  TestRows rows = TestRows::Random(200, kDim, 3);
  const double even = Built(rows)->MeasureBuckets(200).skew;
  // All like the first one: centred they are 0, and lie in one bucket of each table.
  for (auto& weights : rows.weights) weights = rows.weights[0];
  for (float& bias : rows.biases) bias = rows.biases[0];
  const BucketLoad load = Built(rows)->MeasureBuckets(200);
  EXPECT_DOUBLE_EQ(load.rows_per_bucket, 200);
  EXPECT_GT(load.skew, even);
}

TEST_P(BucketLoadTest, WithoutTablesOrRowsThereIsNone) {
  EXPECT_EQ((*HashIndex::Create(spec_, kDim))->MeasureBuckets(10).rows_sampled, 0);
  EXPECT_EQ(Built(TestRows(kDim))->MeasureBuckets(10).skew, 0);
  EXPECT_EQ(Built(TestRows::Random(5, kDim, 1))->MeasureBuckets(0).rows_sampled, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, BucketLoadTest,
                         ::testing::Values(HashFamilyKind::kSimHash, HashFamilyKind::kDwta));

}  // namespace
}  // namespace dslide
