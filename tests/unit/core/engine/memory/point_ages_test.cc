#include "core/engine/memory/point_ages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dslide {
namespace {

using ::testing::ElementsAre;

TEST(PointAges, TheOldestComeFirstAndOnlyTheOldEnough) {
  PointAges ages;
  EXPECT_EQ(ages.PopOlderThan(0xffffffff), std::nullopt);
  const std::vector<uint32_t> times = {7, 3, 9, 3, 0, 8};
  for (uint32_t row = 0; row < times.size(); ++row) ages.Add(row, times[row]);
  std::vector<uint32_t> popped;
  while (const std::optional<uint32_t> row = ages.PopOlderThan(8)) popped.push_back(times[*row]);
  EXPECT_THAT(popped, ElementsAre(0, 3, 3, 7));
  EXPECT_EQ(ages.entries(), 2);
  EXPECT_EQ(ages.PopOlderThan(0), std::nullopt);
  ages.Clear();
  EXPECT_EQ(ages.PopOlderThan(0xffffffff), std::nullopt);
}

}  // namespace
}  // namespace dslide
