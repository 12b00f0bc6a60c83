#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class NonzeroKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(NonzeroKernelTest);

// Numbers of which a part is 0, with a -0 and the least subnormal among the others.
std::vector<float> NumbersWithZeros(int64_t n, double share) {
  CounterRng rng(static_cast<uint64_t>(n) + 1);
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) {
    if (rng.NextUniform() < share) continue;
    x[i] = i % 7 == 0 ? -0.0f : i % 7 == 1 ? 0x1p-149f : rng.NextUniform() - 0.5f;
  }
  return x;
}

std::vector<uint32_t> BitsOf(const float* x, int64_t n) {
  std::vector<uint32_t> bits(n);
  for (int64_t i = 0; i < n; ++i) bits[i] = std::bit_cast<uint32_t>(x[i]);
  return bits;
}

// All arrays end at a guard page: nothing is read or written beyond them.
void ExpectPackedAndBack(const std::vector<float>& numbers) {
  const auto n = static_cast<int64_t>(numbers.size());
  std::vector<float> stay;
  std::vector<uint8_t> expected_bits((n + 7) / 8);
  for (int64_t i = 0; i < n; ++i) {
    if (std::bit_cast<uint32_t>(numbers[i]) == 0) continue;
    stay.push_back(numbers[i]);
    expected_bits[i / 8] |= static_cast<uint8_t>(1 << i % 8);
  }
  const auto count = static_cast<int64_t>(stay.size());
  GuardedArray<float> x(numbers);
  GuardedArray<uint8_t> bits((n + 7) / 8);
  GuardedArray<float> packed(n);
  ASSERT_EQ(PackNonzero(x.data(), n, bits.data(), packed.data()), count) << n;
  EXPECT_EQ(std::vector<uint8_t>(bits.data(), bits.data() + (n + 7) / 8), expected_bits) << n;
  EXPECT_EQ(BitsOf(packed.data(), count), BitsOf(stay.data(), count)) << n;

  GuardedArray<float> alone(stay);
  GuardedArray<float> back(n);
  ASSERT_EQ(UnpackNonzero(alone.data(), bits.data(), n, back.data()), count) << n;
  EXPECT_EQ(BitsOf(back.data(), n), BitsOf(numbers.data(), n)) << n;
}

TEST_P(NonzeroKernelTest, WhatIsLeftOutComesBackAtEveryLength) {
  for (const int64_t n : Lengths()) {
    for (const double share : {0.0, 0.25, 0.75, 1.0}) {
      ExpectPackedAndBack(NumbersWithZeros(n, share));
    }
  }
}

TEST_P(NonzeroKernelTest, BitsBehindTheLastAreIgnored) {
  const float packed[] = {1.0f, 2.0f, 3.0f};
  const uint8_t bits[] = {0xff};
  float x[4] = {0, 0, 0, 9};
  EXPECT_EQ(UnpackNonzero(packed, bits, 3, x), 3);
  EXPECT_EQ(BitsOf(x, 4), BitsOf(std::vector<float>{1, 2, 3, 9}.data(), 4));
}

}  // namespace
}  // namespace dslide
