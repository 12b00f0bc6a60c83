#include "core/base/heap.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/core/base/memory_flags.h"
#include "tests/unit/core/base/sanitized.h"

namespace dslide {
namespace {

// Elsewhere malloc is another one.
#if defined(__GLIBC__) && !DSLIDE_SANITIZED
TEST(HeapTest, WhatPassesThroughTheHeapLiesInHugePages) {
  KeepFreedMemory();
  const auto buffer = std::make_unique<char[]>(1 << 20);
  const std::string flags = MemoryFlags(buffer.get());
  if (flags.empty()) GTEST_SKIP() << "this kernel has no huge pages, or tells nothing";
  EXPECT_THAT(flags, testing::HasSubstr(" hg"));
}
#endif

}  // namespace
}  // namespace dslide
