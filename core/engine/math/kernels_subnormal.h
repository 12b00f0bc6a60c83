// Arithmetic without subnormal numbers, for the kernels' own sources only.

#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace dslide {

// While one lives, its thread reads subnormal floats as 0 and writes 0 for subnormal results.
//
// Squares of small gradients and moments that fade away are subnormal, and each costs the processor
// more than a hundred cycles: an Adam update of 128 weights takes 20 times as long
// (bench/micro, AdamUpdateBenchmark/21). The compiler knows nothing of the mode, so the arithmetic
// must be in a function that is called through a pointer meanwhile, as DSLIDE_DISPATCH does.
class SubnormalsAsZero {
 public:
#if defined(__SSE__)
  SubnormalsAsZero() : before_(_mm_getcsr()) {
    if ((before_ & kFlushAndZero) != kFlushAndZero) _mm_setcsr(before_ | kFlushAndZero);
  }
  ~SubnormalsAsZero() {
    if ((before_ & kFlushAndZero) != kFlushAndZero) _mm_setcsr(before_);
  }
#else
  SubnormalsAsZero() {}
  ~SubnormalsAsZero() {}
#endif
  SubnormalsAsZero(const SubnormalsAsZero&) = delete;
  SubnormalsAsZero& operator=(const SubnormalsAsZero&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kFlushAndZero = 0x8040;  // MXCSR bits 15 (results) and 6 (operands)
  const unsigned before_;
#endif
};

}  // namespace dslide
