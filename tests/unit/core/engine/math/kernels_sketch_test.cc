#include "core/engine/math/kernels_sketch.h"

#include <cstdint>
#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/reference/vector_reference.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

// Once for each instruction set, with one that only these kernels are compiled for.
class SketchKernelTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<int64_t> SketchTargets() {
  std::vector<int64_t> targets = KernelTargets();
  if ((hwy::SupportedTargets() & HWY_AVX3_DL) != 0) targets.push_back(HWY_AVX3_DL);
  return targets;
}
INSTANTIATE_TEST_SUITE_P(Targets, SketchKernelTest, testing::ValuesIn(SketchTargets()),
                         KernelTargetName);

std::vector<uint64_t> RandomWords(int64_t n) {
  std::vector<uint64_t> words;
  for (int64_t i = 0; i < n; ++i) words.push_back(CounterBits(n, i));
  return words;
}

TEST_P(SketchKernelTest, ReadsAsTheReferenceAtEveryLength) {
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

TEST_P(SketchKernelTest, CountsFromNoneToAllBitsAndNoneOfTheId) {
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

TEST_P(SketchKernelTest, CountsWhatReachesABound) {
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

TEST_P(SketchKernelTest, CountsWiderNumbersThatReachABound) {
  for (const int64_t n : Lengths()) {
    CounterRng rng(n);
    std::vector<uint16_t> values(n);
    for (uint16_t& value : values) {
      constexpr uint16_t kValues[] = {0, 1, 119, 120, 0xff, 0x100, 0x7fff, 0x8000, 0xffff};
      value = kValues[rng.NextBelow(std::size(kValues))];
    }
    GuardedArray<uint16_t> counts(values);
    for (const uint16_t bound : {0, 1, 2, 120, 0x100, 0x7fff, 0x8000, 0xffff}) {
      EXPECT_EQ(CountAtLeast(counts.data(), n, bound), reference::CountAtLeast(values, bound))
          << "n " << n << " bound " << bound;
    }
  }
}

TEST_P(SketchKernelTest, CountsEqualCodesInColumns) {
  struct Case {
    int64_t words, codes_per_word, bits_per_code;
  };
  for (const auto& [words, codes, bits] : {Case{1, 64, 1}, Case{2, 60, 1}, Case{5, 7, 8},
                                           Case{3, 10, 6}, Case{1, 2, 24}, Case{9, 21, 3}}) {
    CodeShape shape{words * codes, bits, 0};
    for (int64_t code = 0; code < codes; ++code) shape.lowest_bits |= uint64_t{1} << code * bits;
    const uint64_t used = codes * bits == 64 ? ~uint64_t{0} : (uint64_t{1} << codes * bits) - 1;
    for (const int64_t n : Lengths()) {
      // Few codes differ, so that those of several bits are equal now and then.
      std::vector<uint64_t> query(words);
      for (int64_t w = 0; w < words; ++w) query[w] = CounterBits(w, 1) & used;
      const int64_t stride = n + 3;
      std::vector<uint64_t> values(words * stride);
      for (int64_t i = 0; i < words * stride; ++i) {
        const uint64_t change = CounterBits(2, i) & CounterBits(3, i) & CounterBits(4, i);
        values[i] = (query[i / stride] ^ change) & used;
      }
      GuardedArray<uint64_t> columns(values);
      GuardedArray<uint16_t> equal(n);
      CountEqualCodes({columns.data(), n, stride, words}, shape, query.data(), equal.data());
      for (int64_t i = 0; i < n; ++i) {
        std::vector<uint64_t> row;
        for (int64_t w = 0; w < words; ++w) row.push_back(values[w * stride + i]);
        ASSERT_EQ(equal.data()[i], reference::EqualCodes(row, query, codes, bits))
            << "n " << n << " vector " << i << " of " << words << " words, bits " << bits;
      }
    }
  }
}

TEST_P(SketchKernelTest, ComparesCountsWithoutASign) {
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
