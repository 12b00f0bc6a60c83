// Element-wise functions of vectors: the exponential and the two bfloat16 conversions.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_convert.cc"
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

using IntTag = hn::RebindToSigned<FloatTag>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using UintVec = hn::Vec<UintTag>;
using HalfWordTag = hn::Rebind<uint16_t, FloatTag>;

// The logarithm of the smallest normal number: what has a smaller exponent becomes 0.
inline constexpr float kMinExponent = -87.33654f;

// 2^n for n in [-126, 127].
HWY_INLINE FloatVec PowerOfTwo(IntVec n) {
  const IntVec biased = hn::Add(n, hn::Set(IntTag(), 127));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(biased));
}

// exp(x) for x in [kMinExponent, 88]; NaN stays NaN.
//
// exp(x) = 2^n exp(r) with |r| <= ln(2)/2. The Taylor polynomial of degree 7 is within 2^-27 of
// exp(r) there (remainder r^8/8! = 5e-9), rounding adds a few u.
HWY_INLINE FloatVec Exp(FloatVec x) {
  const FloatTag d;
  const IntVec n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504f)));
  const FloatVec nf = hn::ConvertTo(d, n);
  // ln(2) in two parts, the first short enough that its product with n is exact.
  FloatVec r = hn::NegMulAdd(nf, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(nf, hn::Set(d, -2.12194440e-4f), r);
  FloatVec p = hn::Set(d, 1.0f / 5040.0f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::Mul(p, PowerOfTwo(n));
}

HWY_INLINE FloatVec ExpClamped(FloatVec x, FloatVec shift) {
  const FloatTag d;
  const FloatVec least = hn::Set(d, kMinExponent);
  const FloatVec difference = hn::Sub(x, shift);
  // Min and Max return their second argument when one is NaN.
  const FloatVec clamped = hn::Max(least, hn::Min(hn::Set(d, 88.0f), difference));
  return hn::IfThenZeroElse(hn::Lt(difference, least), Exp(clamped));
}

void ExpShiftedImpl(float* x, size_t n, float shift) {
  const FloatTag d;
  const FloatVec s = hn::Set(d, shift);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(ExpClamped(hn::LoadU(d, x + i), s), d, x + i);
  }
  if (i < n) StoreTail(ExpClamped(LoadTail(x + i, n - i), s), x + i, n - i);
}

void FloatsToBFloat16Impl(const float* in, size_t n, BFloat16* out) {
  const FloatTag d;
  const UintTag du;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const FloatVec v = hn::LoadU(d, in + i);
    const UintVec bits = hn::BitCast(du, v);
    const UintVec upper = hn::ShiftRight<16>(bits);
    const UintVec odd = hn::And(upper, hn::Set(du, 1u));
    const UintVec rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
    const UintVec quiet_nan = hn::Or(upper, hn::Set(du, 0x0040u));
    const UintVec result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet_nan, rounded);
    const auto narrow = hn::DemoteTo(HalfWordTag(), hn::BitCast(IntTag(), result));
    hn::StoreU(narrow, HalfWordTag(), &out[i].bits);
  }
  for (; i < n; ++i) out[i] = ToBFloat16(in[i]);
}

void BFloat16ToFloatsImpl(const BFloat16* in, size_t n, float* out) {
  const FloatTag d;
  const UintTag du;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const UintVec bits = hn::PromoteTo(du, hn::LoadU(HalfWordTag(), &in[i].bits));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, out + i);
  }
  for (; i < n; ++i) out[i] = ToFloat(in[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(ExpShiftedImpl);
HWY_EXPORT(FloatsToBFloat16Impl);
HWY_EXPORT(BFloat16ToFloatsImpl);

void ExpShifted(float* x, int64_t n, float shift) {
  DSLIDE_DISPATCH(ExpShiftedImpl)(x, static_cast<size_t>(n), shift);
}

void FloatsToBFloat16(const float* in, int64_t n, BFloat16* out) {
  DSLIDE_DISPATCH(FloatsToBFloat16Impl)(in, static_cast<size_t>(n), out);
}

void BFloat16ToFloats(const BFloat16* in, int64_t n, float* out) {
  DSLIDE_DISPATCH(BFloat16ToFloatsImpl)(in, static_cast<size_t>(n), out);
}

}  // namespace dslide
#endif  // HWY_ONCE
