// The only door to OpenMP. Loops over fixed ranges; the result never depends on the thread count.
//
// Determinism: ParallelFor gives each index to one thread, in no stated order between threads, so
// the body may write only what belongs to its index. Sums over indices use a fixed number of
// partitions (FixedPartitions) that is independent of the thread count, added in partition order.

#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dslide {

// How many threads one command may use. Passed down explicitly; there is no global setting.
struct Parallelism {
  // At least 1. 1 runs the loop on the calling thread.
  int threads = 1;
};

// Calls body(index, thread) for index in [0, count); thread is in [0, parallelism.threads).
//
// The body must not throw: no exception may leave an OpenMP region, so one terminates the process.
// `grain` indices at a time are handed to a thread; choose it so that a grain costs over ~10 us.
template <typename Body>
void ParallelFor(Parallelism parallelism, int64_t count, int64_t grain, const Body& body) {
  if (parallelism.threads <= 1 || count <= grain) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  const int threads = parallelism.threads;
  const int64_t chunk = std::max<int64_t>(1, grain);
#pragma omp parallel for num_threads(threads) schedule(dynamic, chunk)
  for (int64_t i = 0; i < count; ++i) body(i, omp_get_thread_num());
}

// The half-open range of partition `index` when [0, count) is cut into `partitions` near-equal
// parts.
inline std::pair<int64_t, int64_t> PartitionRange(int64_t count, int64_t partitions,
                                                  int64_t index) {
  return {count * index / partitions, count * (index + 1) / partitions};
}

// Partitions used by every cross-row sum whose result must not depend on the thread count.
inline constexpr int64_t kFixedPartitions = 8;

}  // namespace dslide
