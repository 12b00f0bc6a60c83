#include <cstdint>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/reference/vector_reference.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class SplitKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(SplitKernelTest);

std::vector<uint32_t> RandomIds(int64_t n) {
  std::vector<uint32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<uint32_t>(CounterBits(1, i)));
  return ids;
}

// Both outputs end at a guard page: nothing is written beyond as many ids as there are.
template <typename Count>
void ExpectSplitsAsTheReference(const std::vector<uint32_t>& id_values,
                                const std::vector<Count>& count_values, Count bound) {
  const auto n = static_cast<int64_t>(id_values.size());
  GuardedArray<uint32_t> ids(id_values);
  GuardedArray<Count> counts(count_values);
  GuardedArray<uint32_t> above(n);
  GuardedArray<uint32_t> equal(n);
  const SplitSizes sizes =
      SplitByCount(ids.data(), counts.data(), n, bound, above.data(), equal.data());
  const reference::Split expected = reference::SplitByCount(
      id_values, std::vector<uint16_t>(count_values.begin(), count_values.end()), bound);
  ASSERT_LE(sizes.above + sizes.equal, n);
  EXPECT_EQ(std::vector<uint32_t>(above.data(), above.data() + sizes.above), expected.above)
      << "n " << n << " bound " << int{bound};
  EXPECT_EQ(std::vector<uint32_t>(equal.data(), equal.data() + sizes.equal), expected.equal)
      << "n " << n << " bound " << int{bound};
}

TEST_P(SplitKernelTest, MatchesTheReferenceAtEveryLength) {
  for (const int64_t n : Lengths()) {
    CounterRng rng(n);
    std::vector<uint16_t> counts(n);
    for (uint16_t& count : counts) count = static_cast<uint16_t>(rng.NextBelow(5));
    for (const uint16_t bound : {0, 1, 2, 3, 4, 5}) {
      ExpectSplitsAsTheReference<uint16_t>(RandomIds(n), counts, bound);
    }
  }
}

TEST_P(SplitKernelTest, TakesAllOrNothing) {
  for (const int64_t n : Lengths()) {
    const std::vector<uint16_t> counts(n, 7);
    for (const uint16_t bound : {6, 7, 8})
      ExpectSplitsAsTheReference<uint16_t>(RandomIds(n), counts, bound);
  }
}

TEST_P(SplitKernelTest, ComparesCountsWithoutASign) {
  const std::vector<uint16_t> counts = {0, 1,      0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff,
                                        0, 0x8000, 0xffff, 0x7fff, 1,      0x8001, 0xfffe,
                                        0, 1,      0x7fff, 0x8000, 0xffff};
  for (const uint16_t bound : {0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff}) {
    ExpectSplitsAsTheReference<uint16_t>(RandomIds(static_cast<int64_t>(counts.size())), counts,
                                         bound);
  }
}

TEST_P(SplitKernelTest, SplitsByBytesAsByLongerCounts) {
  for (const int64_t n : Lengths()) {
    std::vector<uint8_t> counts(n);
    for (int64_t i = 0; i < n; ++i) counts[i] = static_cast<uint8_t>(CounterBits(n, i));
    for (const uint8_t bound : {0, 1, 0x7f, 0x80, 0xfe, 0xff}) {
      ExpectSplitsAsTheReference<uint8_t>(RandomIds(n), counts, bound);
    }
    for (uint8_t& count : counts) count %= 3;
    for (const uint8_t bound : {0, 1, 2, 3}) {
      ExpectSplitsAsTheReference<uint8_t>(RandomIds(n), counts, bound);
    }
  }
}

}  // namespace
}  // namespace dslide
