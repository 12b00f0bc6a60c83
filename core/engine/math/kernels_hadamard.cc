// The arithmetic of hashing: Walsh-Hadamard transforms of kHadamardLanes vectors at once, the signs
// of their results, and rows prepared for them.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_hadamard.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cstddef>
#include <cstdint>

#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

using UintTag = hn::RebindToUnsigned<FloatTag>;

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
// that they connect, in one column of vectors. Pointers are at the first of them. The elements are
// multiplied by their signs first, when there are any.
template <size_t kLevels, bool kSigned>
HWY_INLINE void Butterflies(const float* in, const float* signs, float* out, size_t distance) {
  constexpr size_t kRows = size_t{1} << kLevels;
  const FloatTag d;
  FloatVec v[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    v[r] = hn::Load(d, in + r * distance * kHadamardLanes);
    if constexpr (kSigned) v[r] = hn::Mul(v[r], hn::Set(d, signs[r * distance]));
  }
  ButterfliesInRegisters<1>(v);
  for (size_t r = 0; r < kRows; ++r) hn::Store(v[r], d, out + r * distance * kHadamardLanes);
}

// Runs Butterflies<kLevels>() over all n elements and columns.
template <size_t kLevels, bool kSigned>
HWY_INLINE void Pass(const float* in, const float* signs, float* out, size_t n, size_t distance) {
  const size_t span = distance << kLevels;
  for (size_t base = 0; base < n; base += span) {
    for (size_t i = base; i < base + distance; ++i) {
      for (size_t lane = 0; lane < kHadamardLanes; lane += kLanes) {
        const size_t at = i * kHadamardLanes + lane;
        Butterflies<kLevels, kSigned>(in + at, signs + i, out + at, distance);
      }
    }
  }
}

// One pass over the elements with the signs, then passes in place. n >= 2^kMaxLevels.
void SignedHadamardLanesImpl(const float* in, const float* signs, float* out, size_t n) {
  Pass<kMaxLevels, true>(in, signs, out, n, 1);
  size_t distance = size_t{1} << kMaxLevels;
  for (; distance << kMaxLevels <= n; distance <<= kMaxLevels) {
    Pass<kMaxLevels, false>(out, signs, out, n, distance);
  }
  if (distance << 3 == n) {
    Pass<3, false>(out, signs, out, n, distance);
  } else if (distance << 2 == n) {
    Pass<2, false>(out, signs, out, n, distance);
  } else if (distance << 1 == n) {
    Pass<1, false>(out, signs, out, n, distance);
  }
}

void SignBitsLanesImpl(const float* y, const SignBitsInput& input, size_t first, size_t count,
                       uint32_t* bits) {
  const FloatTag d;
  const UintTag du;
  const FloatVec zero = hn::Zero(d);
  const FloatVec scale = hn::Set(d, input.scale);
  for (size_t lane = 0; lane < kHadamardLanes; lane += kLanes) {
    const FloatVec extra1 = hn::Load(d, input.extras[0] + lane);
    const FloatVec extra2 = hn::Load(d, input.extras[1] + lane);
    auto packed = hn::Load(du, bits + lane);
    for (size_t i = 0; i < count; ++i) {
      const FloatVec scaled = hn::Mul(hn::Load(d, y + i * kHadamardLanes + lane), scale);
      const FloatVec with1 = hn::Add(scaled, hn::Mul(hn::Set(d, input.extra_signs[0][i]), extra1));
      const FloatVec all = hn::Add(with1, hn::Mul(hn::Set(d, input.extra_signs[1][i]), extra2));
      const auto one = hn::Set(du, uint32_t{1} << (first + i));
      packed = hn::Or(packed, hn::IfThenElseZero(hn::RebindMask(du, hn::Ge(all, zero)), one));
    }
    hn::Store(packed, du, bits + lane);
  }
}

// The 4 x 4 block at `in` (rows of `stride` floats), transposed to rows of kHadamardLanes floats.
HWY_INLINE void TransposeBlock(const float* in, size_t stride, float* out) {
  const QuadTag d;
  const QuadVec a = hn::LoadU(d, in);
  const QuadVec b = hn::LoadU(d, in + stride);
  const QuadVec c = hn::LoadU(d, in + 2 * stride);
  const QuadVec e = hn::LoadU(d, in + 3 * stride);
  const QuadVec ac_low = hn::InterleaveLower(d, a, c);
  const QuadVec be_low = hn::InterleaveLower(d, b, e);
  const QuadVec ac_high = hn::InterleaveUpper(d, a, c);
  const QuadVec be_high = hn::InterleaveUpper(d, b, e);
  hn::Store(hn::InterleaveLower(d, ac_low, be_low), d, out);
  hn::Store(hn::InterleaveUpper(d, ac_low, be_low), d, out + kHadamardLanes);
  hn::Store(hn::InterleaveLower(d, ac_high, be_high), d, out + 2 * kHadamardLanes);
  hn::Store(hn::InterleaveUpper(d, ac_high, be_high), d, out + 3 * kHadamardLanes);
}

void TransposeToLanesImpl(const float* vectors, size_t n, float* out) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t lane = 0; lane < kHadamardLanes; lane += 4) {
      TransposeBlock(vectors + lane * n + i, n, out + i * kHadamardLanes + lane);
    }
  }
  for (; i < n; ++i) {
    for (size_t lane = 0; lane < kHadamardLanes; ++lane) {
      out[i * kHadamardLanes + lane] = vectors[lane * n + i];
    }
  }
}

float CenterRowImpl(const float* x, const float* mean, float* out, size_t n) {
  const FloatTag d;
  HWY_ALIGN float sums[kCenterLanes] = {};
  size_t i = 0;
  for (size_t lane = 0; lane < kCenterLanes; lane += kLanes) {
    FloatVec sum = hn::Zero(d);
    for (i = lane; i + kLanes <= n; i += kCenterLanes) {
      const FloatVec difference = hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, mean + i));
      hn::StoreU(difference, d, out + i);
      sum = hn::Add(sum, hn::Mul(difference, difference));
    }
    if (i < n) {  // in the middle of a vector; a lane beyond n adds 0
      const FloatVec difference = hn::Sub(LoadTail(x + i, n - i), LoadTail(mean + i, n - i));
      StoreTail(difference, out + i, n - i);
      sum = hn::Add(sum, hn::Mul(difference, difference));
    }
    hn::Store(sum, d, sums + lane);
  }
  float total = 0.0f;
  for (const float sum : sums) total += sum;
  return total;
}

void AddToDoublesImpl(const float* x, double* sums, size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto wide = hn::PromoteTo(d, hn::LoadU(narrow, x + i));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), wide), d, sums + i);
  }
  for (; i < n; ++i) sums[i] += static_cast<double>(x[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(SignedHadamardLanesImpl);
HWY_EXPORT(SignBitsLanesImpl);
HWY_EXPORT(TransposeToLanesImpl);
HWY_EXPORT(CenterRowImpl);
HWY_EXPORT(AddToDoublesImpl);

void SignedHadamardLanes(const float* in, const float* signs, float* out, int64_t n) {
  DSLIDE_DISPATCH(SignedHadamardLanesImpl)(in, signs, out, static_cast<size_t>(n));
}

void SignBitsLanes(const float* y, const SignBitsInput& input, int64_t first, int64_t count,
                   uint32_t* bits) {
  DSLIDE_DISPATCH(SignBitsLanesImpl)
  (y, input, static_cast<size_t>(first), static_cast<size_t>(count), bits);
}

void TransposeToLanes(const float* vectors, int64_t n, float* out) {
  DSLIDE_DISPATCH(TransposeToLanesImpl)(vectors, static_cast<size_t>(n), out);
}

float CenterRow(const float* x, const float* mean, float* out, int64_t n) {
  return DSLIDE_DISPATCH(CenterRowImpl)(x, mean, out, static_cast<size_t>(n));
}

void AddToDoubles(const float* x, double* sums, int64_t n) {
  DSLIDE_DISPATCH(AddToDoublesImpl)(x, sums, static_cast<size_t>(n));
}

}  // namespace dslide
#endif  // HWY_ONCE
