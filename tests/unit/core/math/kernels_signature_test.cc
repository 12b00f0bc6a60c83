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

// Ids that tell where they were, each before its signature.
std::vector<uint32_t> PairsOf(const std::vector<uint32_t>& signatures) {
  std::vector<uint32_t> pairs;
  for (size_t i = 0; i < signatures.size(); ++i) {
    pairs.push_back(static_cast<uint32_t>(0x80000000u + 3 * i));
    pairs.push_back(signatures[i]);
  }
  return pairs;
}

TEST_P(SignatureKernelTest, ReadsPairsAsTheReferenceAtEveryLength) {
  for (const int64_t n : Lengths()) {
    std::vector<uint32_t> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<uint32_t>(CounterBits(n, i)));
    GuardedArray<uint32_t> pairs(PairsOf(values));
    for (const uint32_t query : {0u, 0xffffffffu, 0x80000001u, 0x12345678u}) {
      GuardedArray<uint32_t> ids(n);
      GuardedArray<uint8_t> equal(n);
      ReadSignatures(pairs.data(), n, query, ids.data(), equal.data());
      EXPECT_EQ(std::vector<uint8_t>(equal.data(), equal.data() + n),
                reference::CountEqualBits(values, query))
          << "n " << n << " query " << query;
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(ids[i], pairs[2 * i]) << "n " << n << " i " << i;
    }
  }
}

TEST_P(SignatureKernelTest, CountsFromNoneToAllBits) {
  std::vector<uint32_t> values;
  for (int bits = 0; bits <= 32; ++bits) {
    values.push_back(static_cast<uint32_t>((uint64_t{1} << bits) - 1));
  }
  std::vector<uint32_t> ids(values.size());
  std::vector<uint8_t> equal(values.size());
  ReadSignatures(PairsOf(values).data(), static_cast<int64_t>(values.size()), 0xffffffffu,
                 ids.data(), equal.data());
  for (size_t bits = 0; bits < values.size(); ++bits) EXPECT_EQ(equal[bits], bits);
}

TEST_P(SignatureKernelTest, CountsWhatReachesABound) {
  for (const int64_t n : Lengths()) {
    CounterRng rng(n);
    std::vector<uint8_t> values(n);
    for (uint8_t& value : values) value = static_cast<uint8_t>(rng.NextBelow(33));
    GuardedArray<uint8_t> counts(values);
    for (uint8_t bound = 0; bound <= 34; ++bound) {
      EXPECT_EQ(CountAtLeast(counts.data(), n, bound), reference::CountAtLeast(values, bound))
          << "n " << n << " bound " << int{bound};
    }
  }
}

TEST_P(SignatureKernelTest, ComparesCountsWithoutASign) {
  std::vector<uint8_t> values;
  for (int i = 0; i < 20; ++i) {
    for (const uint8_t value : {0, 1, 0x7f, 0x80, 0x81, 0xfe, 0xff}) values.push_back(value);
  }
  for (const uint8_t bound : {0, 1, 0x7f, 0x80, 0xfe, 0xff}) {
    EXPECT_EQ(CountAtLeast(values.data(), static_cast<int64_t>(values.size()), bound),
              reference::CountAtLeast(values, bound))
        << "bound " << int{bound};
  }
}

}  // namespace
}  // namespace dslide
