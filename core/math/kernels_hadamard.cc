// Walsh-Hadamard transforms of kHadamardLanes vectors at once.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/math/kernels_hadamard.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cstddef>

#include "core/math/kernels.h"
#include "core/math/kernels_target.h"
#include "core/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

// Butterfly distances handled in registers before the rows go back to memory: 16 rows of the 32
// registers of AVX-512, 8 of the 16 registers of the others.
#if HWY_TARGET <= HWY_AVX3
inline constexpr size_t kMaxLevels = 4;
#else
inline constexpr size_t kMaxLevels = 3;
#endif

// (a, b) -> (a + b, a - b) for all pairs of v whose indices differ by kStep, then by 2 * kStep, ...
// One loop of at most 8 rounds per call, which compilers unroll completely; a nest of loops they
// leave rolled, with v in memory.
template <size_t kStep, size_t kRows>
HWY_INLINE void ButterfliesInRegisters(FloatVec (&v)[kRows]) {
  for (size_t pair = 0; pair < kRows / 2; ++pair) {
    const size_t r = 2 * (pair - pair % kStep) + pair % kStep;
    const FloatVec a = v[r];
    const FloatVec b = v[r + kStep];
    v[r] = hn::Add(a, b);
    v[r + kStep] = hn::Sub(a, b);
  }
  if constexpr (2 * kStep < kRows) ButterfliesInRegisters<2 * kStep>(v);
}

// The butterflies of distance, 2 * distance, ... 2^(kLevels-1) * distance on the 2^kLevels elements
// that they connect, in one column of vectors. x is at the first of them.
template <size_t kLevels>
HWY_INLINE void Butterflies(float* x, size_t distance) {
  constexpr size_t kRows = size_t{1} << kLevels;
  const FloatTag d;
  FloatVec v[kRows];
  for (size_t r = 0; r < kRows; ++r) v[r] = hn::Load(d, x + r * distance * kHadamardLanes);
  ButterfliesInRegisters<1>(v);
  for (size_t r = 0; r < kRows; ++r) hn::Store(v[r], d, x + r * distance * kHadamardLanes);
}

// Runs Butterflies<kLevels>() over all n elements and columns.
template <size_t kLevels>
HWY_INLINE void Pass(float* x, size_t n, size_t distance) {
  const size_t span = distance << kLevels;
  for (size_t base = 0; base < n; base += span) {
    for (size_t i = base; i < base + distance; ++i) {
      for (size_t lane = 0; lane < kHadamardLanes; lane += kLanes) {
        Butterflies<kLevels>(x + i * kHadamardLanes + lane, distance);
      }
    }
  }
}

void HadamardLanesImpl(float* x, size_t n) {
  size_t distance = 1;
  for (; distance << kMaxLevels <= n; distance <<= kMaxLevels) Pass<kMaxLevels>(x, n, distance);
  if (distance << 3 == n) {
    Pass<3>(x, n, distance);
  } else if (distance << 2 == n) {
    Pass<2>(x, n, distance);
  } else if (distance << 1 == n) {
    Pass<1>(x, n, distance);
  }
}

void FlipSignsLanesImpl(float* x, const float* signs, size_t n) {
  const FloatTag d;
  const FloatVec sign_bit = hn::SignBit(d);
  for (size_t i = 0; i < n; ++i) {
    const FloatVec flip = hn::And(hn::Set(d, signs[i]), sign_bit);
    for (size_t lane = 0; lane < kHadamardLanes; lane += kLanes) {
      float* const at = x + i * kHadamardLanes + lane;
      hn::Store(hn::Xor(hn::Load(d, at), flip), d, at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(HadamardLanesImpl);
HWY_EXPORT(FlipSignsLanesImpl);

void HadamardLanes(float* x, int64_t n) {
  DSLIDE_DISPATCH(HadamardLanesImpl)(x, static_cast<size_t>(n));
}

void FlipSignsLanes(float* x, const float* signs, int64_t n) {
  DSLIDE_DISPATCH(FlipSignsLanesImpl)(x, signs, static_cast<size_t>(n));
}

}  // namespace dslide
#endif  // HWY_ONCE
