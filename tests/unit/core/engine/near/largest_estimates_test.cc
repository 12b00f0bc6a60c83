#include "core/engine/near/largest_estimates.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/counter_rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint32_t> BySort(const std::vector<float>& estimates, size_t count) {
  std::vector<uint32_t> places(estimates.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](uint32_t a, uint32_t b) { return estimates[a] > estimates[b]; });
  places.resize(std::min(count, places.size()));
  std::sort(places.begin(), places.end());
  return places;
}

TEST(LargestEstimatesTest, AreThoseOfASort) {
  CounterRng rng(5);
  LargestScratch scratch;
  std::vector<uint32_t> places;
  for (const int64_t size : {1, 2, 37, 1000}) {
    // Few different numbers, so that there are ties; and very different ones.
    for (const int64_t kinds : {1, 3, 1 << 20}) {
      std::vector<float> estimates;
      for (int64_t i = 0; i < size; ++i) {
        const auto kind = static_cast<float>(rng.NextBelow(static_cast<uint64_t>(kinds)));
        estimates.push_back((rng.NextBits() & 1) != 0 ? 1.0f + kind : -1.0f / (1.0f + kind));
      }
      for (const int64_t count : {int64_t{0}, int64_t{1}, size / 2, size - 1, size, size + 5}) {
        FindLargest(estimates, count, scratch, places);
        EXPECT_EQ(places, BySort(estimates, static_cast<size_t>(count)))
            << size << " estimates, " << count << " wanted";
      }
    }
  }
}

TEST(LargestEstimatesTest, NumbersOfNoValueAreCountedAsWell) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  LargestScratch scratch;
  std::vector<uint32_t> places;
  const std::vector<float> estimates = {1.0f, nan, -kInfinity, kInfinity, nan};
  FindLargest(estimates, 3, scratch, places);
  EXPECT_THAT(places, ElementsAre(1, 3, 4));
  FindLargest(estimates, 1, scratch, places);
  EXPECT_THAT(places, ElementsAre(1));
  FindLargest({}, 1, scratch, places);
  EXPECT_THAT(places, IsEmpty());
}

}  // namespace
}  // namespace dslide
