#include "core/system/huge_pages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/core/base/memory_flags.h"

namespace dslide {
namespace {

constexpr size_t kLarge = kHugePageBytes / 2;

TEST(HugePagesTest, ZerosAreMappedInWholePages) {
  EXPECT_EQ(MappedBytes(1), 4096u);
  EXPECT_EQ(MappedBytes(kLarge - 1), kLarge);
  EXPECT_EQ(MappedBytes(kLarge), kHugePageBytes);
  EXPECT_EQ(MappedBytes(kHugePageBytes + 1), 2 * kHugePageBytes);
  for (const size_t bytes : {size_t{1}, kLarge - 1, kLarge, 3 * kHugePageBytes + 5}) {
    auto* const memory = static_cast<char*>(MapZeros(bytes));
    ASSERT_NE(memory, nullptr) << bytes;
    const size_t page = bytes < kLarge ? 4096 : kHugePageBytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % page, 0u) << bytes;
    for (size_t i = 0; i < MappedBytes(bytes); ++i) ASSERT_EQ(memory[i], 0) << bytes;
    memory[MappedBytes(bytes) - 1] = 1;
    Unmap(memory, bytes);
  }
}

TEST(HugePagesTest, ReleasedPartsAreZerosAndNothingElse) {
  constexpr size_t kBytes = 5 * 4096;
  auto* const memory = static_cast<char*>(MapZeros(kBytes));
  ASSERT_NE(memory, nullptr);
  struct Part {
    size_t begin, end;
  };
  for (const auto& [begin, end] :
       {Part{100, 200}, Part{0, 4096}, Part{4000, 12300}, Part{1, kBytes}, Part{4096, 4100}}) {
    std::fill_n(memory, kBytes, 'x');
    ReleasePages(memory + begin, end - begin);
    for (size_t i = 0; i < kBytes; ++i) {
      ASSERT_EQ(memory[i], i >= begin && i < end ? 0 : 'x') << begin << " " << end << " " << i;
    }
  }
  Unmap(memory, kBytes);
}

TEST(HugePagesTest, MoreThanThereIsIsNull) { EXPECT_EQ(MapZeros(size_t{1} << 60), nullptr); }

TEST(HugePagesTest, AVectorKeepsItsContentsAcrossTheThreshold) {
  HugeVector<uint32_t> values;
  for (uint32_t i = 0; i < 3 * kHugePageBytes / sizeof(uint32_t); ++i) values.push_back(i);
  for (uint32_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i);
  values.resize(10);
  values.shrink_to_fit();
  EXPECT_THAT(values, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  HugeVector<uint32_t> other(kLarge, 7u);
  std::swap(values, other);
  EXPECT_EQ(values.size(), kLarge);
  EXPECT_EQ(std::accumulate(other.begin(), other.end(), 0u), 45u);
}

TEST(HugePagesTest, AnImpossibleVectorThrows) {
  HugePageAllocator<uint64_t> allocator;
  EXPECT_THROW((void)allocator.allocate(size_t{1} << 61), std::bad_alloc);
  EXPECT_THROW((void)allocator.allocate(size_t{1} << 57), std::bad_alloc);
}

TEST(HugePagesTest, TheKernelIsAskedForHugePages) {
  const HugeVector<char> large(kHugePageBytes, 'x');
  const std::string flags = MemoryFlags(large.data());
  if (flags.empty()) GTEST_SKIP() << "this kernel has no huge pages, or tells nothing";
  EXPECT_THAT(flags, testing::HasSubstr(" hg"));
}

}  // namespace
}  // namespace dslide
