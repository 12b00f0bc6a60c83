#include <algorithm>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "core/system/aligned_buffer.h"
#include "gtest/gtest.h"
#include "tests/reference/math_reference.h"
#include "tests/unit/core/engine/math/kernel_test.h"

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

std::vector<float> RandomSigns(int64_t n) {
  CounterRng rng(52);
  std::vector<float> signs(n);
  for (float& sign : signs) sign = rng.NextBelow(2) == 0 ? -1.0f : 1.0f;
  return signs;
}

std::vector<float> Signed(const std::vector<float>& x, const std::vector<float>& signs) {
  std::vector<float> result = x;
  for (size_t i = 0; i < x.size(); ++i) {
    if (signs[i] < 0) result[i] = -x[i];
  }
  return result;
}

TEST_P(HadamardKernelTest, HasTheBitsOfTheButterfliesInEveryLane) {
  for (int64_t n = 16; n <= 4096; n *= 2) {
    const std::vector<float> signs = RandomSigns(n);
    for (const Values values : AllValues()) {
      const AlignedBuffer in = RandomBlock(n, values);
      AlignedBuffer out = RandomBlock(n, values);
      SignedHadamardLanes(in.data(), signs.data(), out.data(), n);
      for (int64_t lane = 0; lane < kHadamardLanes; ++lane) {
        const auto expected = reference::HadamardButterflies(Signed(Lane(in, lane), signs));
        EXPECT_TRUE(SameBits(Lane(out, lane), expected)) << "n " << n;
      }
    }
  }
}

TEST_P(HadamardKernelTest, WorksInPlace) {
  for (const int64_t n : {16, 128, 256}) {
    const std::vector<float> signs = RandomSigns(n);
    AlignedBuffer block = RandomBlock(n, Values::kUnit);
    AlignedBuffer out = RandomBlock(n, Values::kUnit);
    SignedHadamardLanes(block.data(), signs.data(), out.data(), n);
    SignedHadamardLanes(block.data(), signs.data(), block.data(), n);
    for (int64_t lane = 0; lane < kHadamardLanes; ++lane) {
      EXPECT_TRUE(SameBits(Lane(block, lane), Lane(out, lane))) << "n " << n;
    }
  }
}

TEST_P(HadamardKernelTest, MatchesTheDefinition) {
  for (const int64_t n : {16, 64, 128}) {
    const std::vector<float> signs = RandomSigns(n);
    AlignedBuffer block = RandomBlock(n, Values::kUnit);
    const std::vector<double> expected = reference::Hadamard(Signed(Lane(block, 5), signs));
    SignedHadamardLanes(block.data(), signs.data(), block.data(), n);
    const std::vector<float> actual = Lane(block, 5);
    // log2(n) additions of values that sum to at most n.
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(actual[i], expected[i], 12 * kU * n);
  }
}

TEST_P(HadamardKernelTest, SignBitsAreThoseOfTheFormula) {
  constexpr float kScale = 1.0f / 64.0f;
  const int64_t rows = 24;
  AlignedBuffer y = RandomBlock(rows, Values::kUnit);
  AlignedBuffer extras = RandomBlock(2, Values::kUnit);
  y.data()[5] = -0.0f;
  extras.data()[5] = extras.data()[kHadamardLanes + 5] = 0.0f;  // the sum is a zero: bit 1
  const std::vector<float> signs1 = RandomSigns(rows);
  const std::vector<float> signs2 = Signed(signs1, RandomSigns(rows));
  const SignBitsInput input{.scale = kScale,
                            .extra_signs = {signs1.data(), signs2.data()},
                            .extras = {extras.data(), extras.data() + kHadamardLanes}};
  for (const int64_t first : {0, 3, 8}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, rows}) {
      alignas(64) uint32_t bits[kHadamardLanes];
      std::fill_n(bits, kHadamardLanes, 1u);  // another table's; stays
      SignBitsLanes(y.data(), input, first, count, bits);
      for (int64_t lane = 0; lane < kHadamardLanes; ++lane) {
        uint32_t expected = 1;
        for (int64_t i = 0; i < count; ++i) {
          const float scaled = y.data()[i * kHadamardLanes + lane] * kScale;
          const float sum = (scaled + signs1[i] * extras.data()[lane]) +
                            signs2[i] * extras.data()[kHadamardLanes + lane];
          if (sum >= 0.0f) expected |= uint32_t{1} << (first + i);
        }
        EXPECT_EQ(bits[lane], expected) << "first " << first << " count " << count;
      }
    }
  }
}

TEST_P(HadamardKernelTest, TransposeToLanesMovesEachElement) {
  for (const int64_t n : {0, 1, 3, 4, 5, 16, 127, 128}) {
    const std::vector<float> vectors = RandomFloats(kHadamardLanes * n, Values::kUnit, 60);
    AlignedBuffer out = RandomBlock(n + 1, Values::kUnit);
    const float after = out.data()[n * kHadamardLanes];
    TransposeToLanes(vectors.data(), n, out.data());
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t lane = 0; lane < kHadamardLanes; ++lane) {
        ASSERT_EQ(out.data()[i * kHadamardLanes + lane], vectors[lane * n + i]) << "n " << n;
      }
    }
    EXPECT_EQ(out.data()[n * kHadamardLanes], after) << "written beyond n";
  }
}

TEST_P(HadamardKernelTest, CenterRowSubtractsAndSumsSquaresInItsOrder) {
  for (const int64_t n : {0, 1, 3, 4, 15, 16, 17, 31, 33, 100, 128, 131}) {
    const std::vector<float> x = RandomFloats(n, Values::kUnit, 61);
    const std::vector<float> mean = RandomFloats(n, Values::kUnit, 62);
    std::vector<float> out(n + 1, 7.0f);
    const float squares = CenterRow(x.data(), mean.data(), out.data(), n);
    float lanes[kCenterLanes] = {};
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(out[i], x[i] - mean[i]) << "n " << n << " i " << i;
      lanes[i % kCenterLanes] += out[i] * out[i];
    }
    float expected = 0.0f;
    for (const float lane : lanes) expected += lane;
    EXPECT_EQ(squares, expected) << "n " << n;
    EXPECT_EQ(out[n], 7.0f) << "written beyond n";
  }
}

TEST_P(HadamardKernelTest, AddToDoublesAddsEachElement) {
  for (const int64_t n : {0, 1, 2, 7, 8, 9, 128, 131}) {
    const std::vector<float> x = RandomFloats(n, Values::kUnit, 63);
    std::vector<double> sums(n + 1, 0.125);
    AddToDoubles(x.data(), sums.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(sums[i], 0.125 + double{x[i]});
    EXPECT_EQ(sums[n], 0.125) << "written beyond n";
  }
}

}  // namespace
}  // namespace dslide
