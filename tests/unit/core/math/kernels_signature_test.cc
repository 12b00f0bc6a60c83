#include "core/math/kernels_signature.h"

#include <cstdint>
#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/reference/vector_reference.h"
#include "tests/unit/core/math/kernel_test.h"

namespace dslide {
namespace {

// Once for each instruction set, with one that only these kernels are compiled for.
class SignatureKernelTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<int64_t> SignatureTargets() {
  std::vector<int64_t> targets = KernelTargets();
  if ((hwy::SupportedTargets() & HWY_AVX3_DL) != 0) targets.push_back(HWY_AVX3_DL);
  return targets;
}
INSTANTIATE_TEST_SUITE_P(Targets, SignatureKernelTest, testing::ValuesIn(SignatureTargets()),
                         KernelTargetName);

std::vector<uint64_t> RandomWords(int64_t n) {
  std::vector<uint64_t> words;
  for (int64_t i = 0; i < n; ++i) words.push_back(CounterBits(n, i));
  return words;
}

TEST_P(SignatureKernelTest, ReadsAsTheReferenceAtEveryLength) {
  for (const int64_t n : Lengths()) {
    GuardedArray<uint64_t> words(RandomWords(n));
    for (const uint64_t query : {uint64_t{0}, ~uint64_t{0}, uint64_t{0x123456789abcdef}}) {
      for (const int id_bits : {1, 20, 31, 32}) {
        const int middle = (64 - id_bits) / 2;
        for (const int bound : {0, middle - 4, middle, middle + 2, 64 - id_bits}) {
          GuardedArray<uint32_t> ids(n);
          GuardedArray<uint8_t> equal(n);
          const int64_t count = ReadNear(words.data(), n, query, id_bits,
                                         static_cast<uint8_t>(bound), ids.data(), equal.data());
          const reference::NearIds expected =
              reference::ReadNear(words.span(), query, id_bits, static_cast<uint8_t>(bound));
          ASSERT_EQ(count, static_cast<int64_t>(expected.ids.size()));
          EXPECT_EQ(std::vector<uint32_t>(ids.data(), ids.data() + count), expected.ids)
              << "n " << n << " query " << query << " id bits " << id_bits << " bound " << bound;
          EXPECT_EQ(std::vector<uint8_t>(equal.data(), equal.data() + count), expected.equal);
        }
      }
    }
  }
}

TEST_P(SignatureKernelTest, CountsFromNoneToAllBitsAndNoneOfTheId) {
  constexpr int kIdBits = 20;
  std::vector<uint64_t> words;
  for (int bits = 0; bits <= 64 - kIdBits; ++bits) {
    words.push_back(((uint64_t{1} << bits) - 1) << kIdBits | static_cast<uint64_t>(bits));
  }
  const auto n = static_cast<int64_t>(words.size());
  std::vector<uint32_t> ids(n);
  std::vector<uint8_t> equal(n);
  EXPECT_EQ(ReadNear(words.data(), n, ~uint64_t{0}, kIdBits, 0, ids.data(), equal.data()), n);
  for (int64_t bits = 0; bits < n; ++bits) {
    EXPECT_EQ(ids[bits], bits);
    EXPECT_EQ(equal[bits], bits);
  }
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
