#include "core/base/heap.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/core/base/memory_flags.h"

namespace dslide {
namespace {

TEST(HeapTest, WhatPassesThroughTheHeapLiesInHugePages) {
  KeepFreedMemory();
  const auto buffer = std::make_unique<char[]>(1 << 20);
  const std::string flags = MemoryFlags(buffer.get());
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "another malloc";
#endif
  if (flags.empty()) GTEST_SKIP() << "this kernel has no huge pages, or tells nothing";
  EXPECT_THAT(flags, testing::HasSubstr(" hg"));
}

}  // namespace
}  // namespace dslide
