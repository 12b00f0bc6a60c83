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
#endif
}

}  // namespace dslide
