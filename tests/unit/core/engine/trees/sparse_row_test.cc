#include "core/engine/trees/sparse_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SparseRow, DropsSmallWeightsAndCleansUp) {
  DenseRow row;
  row.Resize(10);
  for (const auto& [column, weight] : {std::pair(7u, 0.5f), {2u, -0.25f}, {3u, 0.05f}}) {
    row.Touch(column);
    row.weights[column] = weight;
  }
  const std::string record = EncodeSparseRow(row, 1.5f, 2, 0.2f);
  ASSERT_TRUE(CheckSparseRowRecord(record, 8).ok());
  const SparseRowView view(record.data());
  EXPECT_EQ(view.bias(), 1.5f);
  EXPECT_THAT(view.columns(), ElementsAre(2, 7));
  EXPECT_EQ(ToFloat(view.weights()[0]), -0.5f);
  EXPECT_EQ(ToFloat(view.weights()[1]), 1.0f);
  row.Clear();
  EXPECT_THAT(row.weights, Each(0.0f));
  EXPECT_THAT(row.is_touched, Each(0));
}

TEST(SparseRow, DamageIsFound) {
  DenseRow row;
  row.Resize(10);
  row.Touch(7);
  row.Touch(2);
  row.weights[7] = row.weights[2] = 1;
  const std::string good = EncodeSparseRow(row, 0, 1, 0);
  EXPECT_THAT(std::string(CheckSparseRowRecord(good.substr(0, 7), 10).message()),
              HasSubstr("is cut"));
  EXPECT_THAT(std::string(CheckSparseRowRecord(good + "x", 10).message()),
              HasSubstr("do not fit 2 entries"));
  EXPECT_THAT(std::string(CheckSparseRowRecord(good, 7).message()), HasSubstr("a column 7"));
  std::string bad = good;
  const uint32_t column = 2;
  std::memcpy(bad.data() + 12, &column, sizeof(column));
  EXPECT_THAT(std::string(CheckSparseRowRecord(bad, 10).message()), HasSubstr("a column 2"));
  bad = good;
  bad[bad.size() - 1] = '\x7f';
  bad[bad.size() - 2] = '\x80';
  EXPECT_THAT(std::string(CheckSparseRowRecord(bad, 10).message()), HasSubstr("not finite"));
}

}  // namespace
}  // namespace dslide
