#include "core/system/malloc_tuning.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "core/system/huge_pages.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace dslide {

#ifdef __GLIBC__
namespace {

constexpr int kKeptBytes = 256 << 20;
constexpr int kReservedBytes = 192 << 20;  // less than is kept, or the next free() gives it back
constexpr int kStepBytes = 64 << 20;       // by which the heap grows beyond that
constexpr uintptr_t kPageBytes = 4096;

// Lets the heap grow, and says that it may be in huge pages. No memory is touched: what is never
// used costs addresses alone.
void ReserveHugePages() {
  mallopt(M_TOP_PAD, kReservedBytes);
  void* const block = std::malloc(kHugePageBytes);
  const auto end = reinterpret_cast<uintptr_t>(sbrk(0));  // a multiple of a page
  const uintptr_t begin = reinterpret_cast<uintptr_t>(block) & -kPageBytes;
  std::free(block);
  // Elsewhere than in the heap when that could not grow, or when this is another malloc.
  if (block == nullptr || end <= begin || end - begin > kReservedBytes + 2 * kHugePageBytes) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace
#endif

void TuneMalloc() {
#ifdef __GLIBC__
  // Blocks below this come from the heap; it is the most that glibc accepts.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  // One arena: the others give whole heaps back whatever the thresholds say, and messages of rows
  // pass from thread to thread. Small blocks come from each thread's own cache without its lock.
  mallopt(M_ARENA_MAX, 1);
  ReserveHugePages();
  mallopt(M_TOP_PAD, kStepBytes);
#endif
}

}  // namespace dslide
