#include "core/engine/memory/kth_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

TEST(KthFloor, IsALittleBelowTheKthLargest) {
  CounterRng rng(3);
  KthFloor floor;
  for (const int64_t k : {1, 2, 50}) {
    floor.Start(k);
    std::vector<float> numbers;
    for (int i = 0; i < 500; ++i) {
      const float number = std::exp(20 * rng.NextUniform() - 12) - 0.01f;
      floor.Add(number);
      numbers.push_back(number);
      std::sort(numbers.begin(), numbers.end(), std::greater<>());
      if (static_cast<int64_t>(numbers.size()) < k) {
        EXPECT_LT(floor.value(), 0);
        continue;
      }
      const float kth = numbers[static_cast<size_t>(k - 1)];
      EXPECT_LE(floor.value(), std::max(kth, 0.0f));
      if (kth > 0) {
        EXPECT_GE(floor.value(), kth * 0.969f);
      }
    }
  }
}

TEST(KthFloor, CountsOnlyNumbersAboveZero) {
  KthFloor floor;
  floor.Start(2);
  for (const float number : {1.0f, 0.0f, -3.0f, -HUGE_VALF}) floor.Add(number);
  EXPECT_EQ(floor.value(), -HUGE_VALF);
  floor.Add(HUGE_VALF);
  EXPECT_EQ(floor.value(), 1.0f);
}

}  // namespace
}  // namespace dslide
