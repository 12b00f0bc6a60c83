#include "core/system/aligned_buffer.h"

#include <cstdint>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

TEST(AlignedBufferTest, IsAlignedAndZeroAtEverySize) {
  for (const int64_t size : {1, 15, 1024, 1025, 524'288, 600'001}) {
    const AlignedBuffer buffer = AlignedBuffer::Create(size).value();
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    for (const float x : buffer.span()) ASSERT_EQ(x, 0.0f);
  }
}

TEST(AlignedBufferTest, NoFloatsNeedNoMemory) {
  const AlignedBuffer buffer = AlignedBuffer::Create(0).value();
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0);
  EXPECT_TRUE(buffer.span().empty());
}

TEST(AlignedBufferTest, MovingKeepsTheContents) {
  AlignedBuffer first = AlignedBuffer::Create(100).value();
  first.data()[99] = 3.5f;
  const float* const memory = first.data();
  AlignedBuffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  AlignedBuffer third = AlignedBuffer::Create(7).value();
  third = std::move(second);
  EXPECT_EQ(third.size(), 100);
  EXPECT_EQ(third.data()[99], 3.5f);
}

TEST(AlignedBufferTest, ImpossibleSizesAreRefusedWithTheSize) {
  // One exbibyte: beyond the address space of any processor of today.
  const auto buffer = AlignedBuffer::Create(int64_t{1} << 58);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(buffer.status().message()), testing::HasSubstr("1152921504606846976"));
}

}  // namespace
}  // namespace dslide
