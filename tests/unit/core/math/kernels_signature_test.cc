#include "core/math/kernels_signature.h"

#include <cstdint>
#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"
#include "tests/reference/vector_reference.h"
#include "tests/unit/core/math/kernel_test.h"

namespace dslide {
namespace {

class SignatureKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(SignatureKernelTest);

TEST_P(SignatureKernelTest, CountsEqualBitsAsTheReferenceAtEveryLength) {
  for (const int64_t n : Lengths()) {
    std::vector<uint32_t> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<uint32_t>(CounterBits(n, i)));
    for (const uint32_t query : {0u, 0xffffffffu, 0x80000001u, 0x12345678u}) {
      GuardedArray<uint32_t> signatures(values);
      GuardedArray<uint16_t> equal(n);
      CountEqualBits(signatures.data(), n, query, equal.data());
      EXPECT_EQ(std::vector<uint16_t>(equal.data(), equal.data() + n),
                reference::CountEqualBits(values, query))
          << "n " << n << " query " << query;
    }
  }
}

TEST_P(SignatureKernelTest, CountsFromNoneToAllBits) {
  std::vector<uint32_t> values;
  for (int bits = 0; bits <= 32; ++bits) {
    values.push_back(static_cast<uint32_t>((uint64_t{1} << bits) - 1));
  }
  std::vector<uint16_t> equal(values.size());
  CountEqualBits(values.data(), static_cast<int64_t>(values.size()), 0xffffffffu, equal.data());
  for (size_t bits = 0; bits < values.size(); ++bits) EXPECT_EQ(equal[bits], bits);
}

TEST_P(SignatureKernelTest, CountsWhatReachesABound) {
  for (const int64_t n : Lengths()) {
    CounterRng rng(n);
    std::vector<uint16_t> values(n);
    for (uint16_t& value : values) value = static_cast<uint16_t>(rng.NextBelow(33));
    GuardedArray<uint16_t> counts(values);
    for (uint16_t bound = 0; bound <= 34; ++bound) {
      EXPECT_EQ(CountAtLeast(counts.data(), n, bound), reference::CountAtLeast(values, bound))
          << "n " << n << " bound " << bound;
    }
  }
}

TEST_P(SignatureKernelTest, ComparesCountsWithoutASign) {
  std::vector<uint16_t> values;
  for (int i = 0; i < 20; ++i) {
    for (const uint16_t value : {0, 1, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff}) {
      values.push_back(value);
    }
  }
  for (const uint16_t bound : {0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff}) {
    EXPECT_EQ(CountAtLeast(values.data(), static_cast<int64_t>(values.size()), bound),
              reference::CountAtLeast(values, bound))
        << "bound " << bound;
  }
}

}  // namespace
}  // namespace dslide
