// Vector building blocks shared by the kernels: partial loads and stores, horizontal sums.
//
// Compiled once per Highway target, hence the toggled include guard instead of #pragma once.
// Every load is unaligned and every sum has one fixed order, so that the address of an array never
// changes a bit of the result.

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

#if defined(DSLIDE_CORE_MATH_KERNELS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DSLIDE_CORE_MATH_KERNELS_VECTOR_INL_H_
#undef DSLIDE_CORE_MATH_KERNELS_VECTOR_INL_H_
#else
#define DSLIDE_CORE_MATH_KERNELS_VECTOR_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
using QuadTag = hn::Full128<float>;
using QuadVec = hn::Vec<QuadTag>;

inline constexpr size_t kLanes = HWY_LANES(float);

// Returns p[0 .. n-1] followed by zeros. n < kLanes. Reads nothing beyond p[n-1].
HWY_INLINE FloatVec LoadTail(const float* p, size_t n) {
  const FloatTag d;
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else  // A masked load of this target reads the whole vector.
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, p, n * sizeof(float));
  return hn::Load(d, lanes);
#endif
}

// Writes the first n lanes to p[0 .. n-1]. n < kLanes. Touches nothing beyond p[n-1].
HWY_INLINE void StoreTail(FloatVec v, float* p, size_t n) {
  const FloatTag d;
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(float));
#endif
}

// Adds the 128-bit blocks of v: halves first.
HWY_INLINE QuadVec FoldBlocks(FloatVec v) {
#if HWY_MAX_BYTES == 64
  const hn::Half<FloatTag> half;
  const auto folded = hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
  return hn::Add(hn::LowerHalf(QuadTag(), folded), hn::UpperHalf(QuadTag(), folded));
#elif HWY_MAX_BYTES == 32
  return hn::Add(hn::LowerHalf(QuadTag(), v), hn::UpperHalf(QuadTag(), v));
#else
  return v;
#endif
}

// Returns (sum of a, sum of b, sum of c, sum of d), each summed in the same order: inside a 128-bit
// block (x0 + x2) + (x1 + x3), then over blocks. A transposition that adds costs six shuffles for
// four sums, where four separate sums cost eight and wait for each other.
HWY_INLINE QuadVec SumLanes4(FloatVec a, FloatVec b, FloatVec c, FloatVec d) {
  const FloatTag tag;
  const FloatVec ac = hn::Add(hn::InterleaveLower(tag, a, c), hn::InterleaveUpper(tag, a, c));
  const FloatVec bd = hn::Add(hn::InterleaveLower(tag, b, d), hn::InterleaveUpper(tag, b, d));
  return FoldBlocks(hn::Add(hn::InterleaveLower(tag, ac, bd), hn::InterleaveUpper(tag, ac, bd)));
}

// Returns the sum of the lanes, in the order of SumLanes4().
HWY_INLINE float SumLanes(FloatVec v) { return hn::GetLane(SumLanes4(v, v, v, v)); }

// Returns lane sums of a * b, to be added by SumLanes. Vectors alternate between two accumulators;
// the last partial vector goes to the second. RowLogits() repeats this order exactly.
HWY_INLINE FloatVec DotLanes(const float* a, const float* b, size_t n) {
  const FloatTag d;
  FloatVec even = hn::Zero(d);
  FloatVec odd = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), even);
    odd = hn::MulAdd(hn::LoadU(d, a + i + kLanes), hn::LoadU(d, b + i + kLanes), odd);
  }
  if (i + kLanes <= n) {
    even = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), even);
    i += kLanes;
  }
  if (i < n) odd = hn::MulAdd(LoadTail(a + i, n - i), LoadTail(b + i, n - i), odd);
  return hn::Add(even, odd);
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#endif  // include guard
