#include <bit>
#include <cmath>
#include <vector>

#include "core/base/aligned_buffer.h"
#include "core/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/reference/math_reference.h"
#include "tests/unit/core/math/kernel_test.h"

namespace dslide {
namespace {

class HadamardKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(HadamardKernelTest);

std::vector<float> Lane(const AlignedBuffer& block, int64_t lane) {
  std::vector<float> out;
  for (int64_t i = lane; i < block.size(); i += kHadamardLanes) out.push_back(block.data()[i]);
  return out;
}

AlignedBuffer RandomBlock(int64_t n, Values values) {
  AlignedBuffer block = AlignedBuffer::Create(n * kHadamardLanes).value();
  const std::vector<float> x = RandomFloats(n * kHadamardLanes, values, 51);
  std::copy(x.begin(), x.end(), block.data());
  return block;
}

TEST_P(HadamardKernelTest, HasTheBitsOfTheButterfliesInEveryLane) {
  for (int64_t n = 1; n <= 4096; n *= 2) {
    for (const Values values : AllValues()) {
      AlignedBuffer block = RandomBlock(n, values);
      std::vector<std::vector<float>> expected;
      for (int64_t lane = 0; lane < kHadamardLanes; ++lane) {
        expected.push_back(reference::HadamardButterflies(Lane(block, lane)));
      }
      HadamardLanes(block.data(), n);
      for (int64_t lane = 0; lane < kHadamardLanes; ++lane) {
        EXPECT_TRUE(SameBits(Lane(block, lane), expected[lane])) << "n " << n;
      }
    }
  }
}

TEST_P(HadamardKernelTest, MatchesTheDefinition) {
  for (const int64_t n : {1, 2, 8, 64, 128}) {
    AlignedBuffer block = RandomBlock(n, Values::kUnit);
    const std::vector<double> expected = reference::Hadamard(Lane(block, 5));
    HadamardLanes(block.data(), n);
    const std::vector<float> actual = Lane(block, 5);
    // log2(n) additions of values that sum to at most n.
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(actual[i], expected[i], 12 * kU * n);
  }
}

TEST_P(HadamardKernelTest, FlipSignsNegatesExactly) {
  for (const int64_t n : {0, 1, 3, 128}) {
    AlignedBuffer block = RandomBlock(n, Values::kSubnormal);
    if (n > 0) block.data()[0] = 0.0f;
    const std::vector<float> before(block.data(), block.data() + block.size());
    std::vector<float> signs;
    for (int64_t i = 0; i < n; ++i) signs.push_back(i % 3 == 0 ? -1.0f : 1.0f);
    FlipSignsLanes(block.data(), signs.data(), n);
    for (int64_t i = 0; i < n * kHadamardLanes; ++i) {
      const float expected = signs[i / kHadamardLanes] < 0 ? -before[i] : before[i];
      ASSERT_EQ(std::bit_cast<uint32_t>(block.data()[i]), std::bit_cast<uint32_t>(expected));
    }
  }
}

}  // namespace
}  // namespace dslide
