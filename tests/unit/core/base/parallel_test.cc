#include "core/base/parallel.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace dslide {
namespace {

TEST(ParallelForTest, CoversEachIndexOnceForAnyThreadsAndGrain) {
  // Most threads first: clang's OpenMP library leaks when its pool has to grow.
  for (const int threads : {8, 3, 2, 1, 0}) {
    for (const int64_t count : {0, 1, 7, 100, 1000}) {
      for (const int64_t grain : {0, 1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        std::atomic<bool> thread_in_range = true;
        ParallelFor({.threads = threads}, count, grain, [&](int64_t i, int thread) {
          visits[static_cast<size_t>(i)].fetch_add(1);
          if (thread < 0 || (thread > 0 && thread >= threads)) thread_in_range = false;
        });
        for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1);
        EXPECT_TRUE(thread_in_range);
      }
    }
  }
}

TEST(ParallelForTest, OneThreadRunsInOrderOnTheCaller) {
  std::vector<int64_t> order;
  ParallelFor({.threads = 1}, 50, 4, [&order](int64_t i, int thread) {
    EXPECT_EQ(thread, 0);
    order.push_back(i);
  });
  ASSERT_EQ(order.size(), 50u);
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(PartitionRangeTest, PartsAreAdjacentAndNearlyEqual) {
  for (const int64_t count : {0, 1, 7, 8, 9, 1000, 1'000'003}) {
    int64_t next = 0;
    for (int64_t part = 0; part < kFixedPartitions; ++part) {
      const auto [begin, end] = PartitionRange(count, kFixedPartitions, part);
      EXPECT_EQ(begin, next);
      EXPECT_LE(end - begin, count / kFixedPartitions + 1);
      EXPECT_GE(end - begin, count / kFixedPartitions);
      next = end;
    }
    EXPECT_EQ(next, count);
  }
}

}  // namespace
}  // namespace dslide
