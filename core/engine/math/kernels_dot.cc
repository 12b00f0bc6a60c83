// Sums over vectors: products, squares, bounds.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_dot.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_subnormal.h"
#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

float DotImpl(const float* a, const float* b, size_t n) { return SumLanes(DotLanes(a, b, n)); }

bool AllWithinImpl(const float* x, size_t n, float bound) {
  const FloatTag d;
  const FloatVec limit = hn::Set(d, bound);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    // A comparison with NaN is false, so this refuses NaN too.
    if (!hn::AllTrue(d, hn::Le(hn::Abs(hn::LoadU(d, x + i)), limit))) return false;
  }
  for (; i < n; ++i) {
    if (!(std::fabs(x[i]) <= bound)) return false;
  }
  return true;
}

// As bit patterns without the sign, floats are ordered like integers, and NaN is above infinity.
uint32_t MaxMagnitudeBitsImpl(const uint8_t* HWY_RESTRICT x, size_t n) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::Repartition<uint8_t, FloatTag> bytes;
  constexpr uint32_t kMagnitude = 0x7fffffffu;
  const auto mask = hn::Set(du, kMagnitude);
  auto best = hn::Zero(du);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto bits = hn::BitCast(du, hn::LoadU(bytes, x + i * sizeof(float)));
    best = hn::Max(best, hn::And(bits, mask));
  }
  HWY_ALIGN uint32_t lanes[kLanes];
  hn::Store(best, du, lanes);
  uint32_t most = 0;
  for (size_t lane = 0; lane < hn::Lanes(d); ++lane) most = std::max(most, lanes[lane]);
  for (; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i * sizeof(float), sizeof(bits));
    most = std::max(most, bits & kMagnitude);
  }
  return most;
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(DotImpl);
HWY_EXPORT(AllWithinImpl);
HWY_EXPORT(MaxMagnitudeBitsImpl);

float Dot(const float* a, const float* b, int64_t n) {
  return DSLIDE_DISPATCH(DotImpl)(a, b, static_cast<size_t>(n));
}

float SumOfSquares(const float* a, int64_t n) {
  const SubnormalsAsZero mode;
  return DSLIDE_DISPATCH(DotImpl)(a, a, static_cast<size_t>(n));
}

bool AllWithin(const float* x, int64_t n, float bound) {
  // Infinity is never within a bound, not even an infinite one. A NaN bound admits nothing.
  const float finite_bound = bound > FLT_MAX ? FLT_MAX : bound;
  return DSLIDE_DISPATCH(AllWithinImpl)(x, static_cast<size_t>(n), finite_bound);
}

float MaxMagnitude(const char* x, int64_t n) {
  return std::bit_cast<float>(DSLIDE_DISPATCH(MaxMagnitudeBitsImpl)(
      reinterpret_cast<const uint8_t*>(x), static_cast<size_t>(n)));
}

}  // namespace dslide
#endif  // HWY_ONCE
