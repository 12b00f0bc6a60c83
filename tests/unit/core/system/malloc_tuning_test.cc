#include "core/system/malloc_tuning.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/unit/core/base/memory_flags.h"
#include "tests/unit/core/base/sanitized.h"

namespace dslide {
namespace {

// Elsewhere malloc is another one.
#if defined(__GLIBC__) && !DSLIDE_SANITIZED
TEST(HeapTest, WhatPassesThroughTheHeapLiesInHugePages) {
  const auto own = std::make_unique<char[]>(1);
  if (MemoryFlags(own.get()).empty()) {
    GTEST_SKIP() << "this kernel has no huge pages, or tells nothing";
  }
  // In a process of its own: the heap of this one was shaped by the cases before.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        TuneMalloc();
        const auto buffer = std::make_unique<char[]>(1 << 20);
        const bool huge = absl::StrContains(MemoryFlags(buffer.get()), " hg");
        std::exit(huge ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace dslide
