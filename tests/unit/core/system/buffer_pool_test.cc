#include "core/system/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace dslide {
namespace {

TEST(BufferPoolTest, ABufferIsUsedAgainLastInFirstOut) {
  BufferPool pool(1000, 10'000);
  PooledBuffer first = pool.Take();
  PooledBuffer second = pool.Take();
  EXPECT_EQ(first.size(), 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 64, 0u);
  EXPECT_NE(first.data(), second.data());
  const char* const last = second.data();
  first = PooledBuffer();
  second = PooledBuffer();
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(pool.free_bytes(), 2000);
  EXPECT_EQ(pool.Take().data(), last);
}

TEST(BufferPoolTest, SpareMemoryIsBounded) {
  BufferPool pool(1000, 2500);
  std::vector<PooledBuffer> out;
  for (int i = 0; i < 5; ++i) out.push_back(pool.Take());
  EXPECT_EQ(pool.used_bytes(), 5000);
  out.clear();
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(pool.free_bytes(), 2000);
}

TEST(BufferPoolTest, ABufferMayOutliveItsPool) {
  auto pool = std::make_unique<BufferPool>(1000, 10'000);
  PooledBuffer buffer = pool->Take();
  pool = nullptr;
  buffer.data()[999] = 'x';
  const PooledBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.data()[999], 'x');
}

}  // namespace
}  // namespace dslide
