#include "core/base/heap.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace dslide {

void KeepFreedMemory() {
#ifdef __GLIBC__
  // Blocks below this come from the heap; it is the most that glibc accepts.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  // The size of one heap of an arena: an empty one is kept, too.
  mallopt(M_TOP_PAD, 64 << 20);
  // One arena: the others give whole heaps back whatever the thresholds say, and messages of rows
  // pass from thread to thread. Small blocks come from each thread's own cache without its lock.
  mallopt(M_ARENA_MAX, 1);
#endif
}

}  // namespace dslide
