#include "client/cli/report/frequency_accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dslide::cli {
namespace {

std::vector<RowId> Labels(const std::vector<uint32_t>& ids) {
  std::vector<RowId> rows;
  for (const uint32_t id : ids) rows.emplace_back(id);
  return rows;
}

TEST(FrequencyAccuracyTest, EachLabelCountsWhereItsFrequencyIs) {
  //                          label  0  1  2  3   4   5    6
  const std::vector<int64_t> counts = {0, 1, 2, 3, 10, 11, 101};
  FrequencyAccuracy accuracy(counts);
  accuracy.Add(Labels({6, 1, 3, 0, 2, 4}), Labels({1, 4, 6}));
  accuracy.Add(Labels({4, 5}), Labels({0, 3}));
  accuracy.Add(Labels({6}), {});  // no label: nothing to be found
  accuracy.Add({}, Labels({5}));  // nothing predicted
  const std::vector<FrequencyBucket> buckets = accuracy.Buckets();
  ASSERT_EQ(buckets.size(), 5U);
  const auto is = [&](size_t at, const char* name, std::vector<int64_t> figures) {
    const FrequencyBucket& b = buckets[at];
    EXPECT_EQ(b.name, name);
    EXPECT_THAT((std::vector<int64_t>{b.labels, b.wanted, b.found_at_1, b.found_at_3, b.found_at_5,
                                      b.first, b.first_right}),
                ::testing::ElementsAreArray(figures))
        << name;
  };
  is(0, "0", {1, 1, 0, 0, 0, 0, 0});
  is(1, "1 to 2", {2, 1, 0, 1, 1, 0, 0});
  is(2, "3 to 10", {2, 2, 0, 0, 0, 1, 0});
  is(3, "11 to 100", {1, 1, 0, 0, 0, 0, 0});
  is(4, "over 100", {1, 1, 1, 1, 1, 1, 1});
}

TEST(FrequencyAccuracyTest, RangesWithoutLabelsAreLeftOut) {
  const std::vector<int64_t> counts = {5, 6};
  EXPECT_EQ(FrequencyAccuracy(counts).Buckets().size(), 1U);
}

}  // namespace
}  // namespace dslide::cli
