// Stochastic rounding to bfloat16.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_round.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
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
using UintVec = hn::Vec<UintTag>;
using HalfWordTag = hn::Rebind<uint16_t, FloatTag>;

// Elements that share random words in pairs, and the words they need: see RoundingBits().
inline constexpr size_t kGroup = 32;
inline constexpr size_t kGroupWords = 16;
static_assert(kGroupWords % kLanes == 0);

// RoundingWord() of kLanes keys' counters: `counter` = key.a + index * kRoundingStride.
HWY_INLINE UintVec Mix(UintVec counter, UintVec b) {
  const UintTag d;
  UintVec x = hn::Xor(counter, hn::ShiftRight<16>(counter));
  x = hn::Mul(x, hn::Set(d, kRoundingMultiplier1));
  x = hn::Xor(hn::Xor(x, hn::ShiftRight<15>(x)), b);
  x = hn::Mul(x, hn::Set(d, kRoundingMultiplier2));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

// RoundStochastically() of kLanes values; stores them and returns their magnitudes' bits.
HWY_INLINE UintVec RoundLanes(const float* in, UintVec random, BFloat16* out) {
  const UintTag d;
  const UintVec bits = hn::BitCast(d, hn::LoadU(FloatTag(), in));
  const UintVec magnitude = hn::And(bits, hn::Set(d, 0x7fffffffu));
  const auto finite = hn::Lt(magnitude, hn::Set(d, 0x7f800000u));
  const auto nan = hn::Gt(magnitude, hn::Set(d, 0x7f800000u));
  const UintVec up = hn::ShiftRight<16>(hn::Add(magnitude, random));
  const UintVec rounded = hn::Min(up, hn::Set(d, 0x7f7fu));
  const UintVec quiet = hn::IfThenElseZero(nan, hn::Set(d, 0x0040u));
  const UintVec special = hn::Or(hn::ShiftRight<16>(magnitude), quiet);
  const UintVec result = hn::IfThenElse(finite, rounded, special);
  const UintVec sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000u));
  const auto narrow = hn::DemoteTo(HalfWordTag(), hn::BitCast(IntTag(), hn::Or(result, sign)));
  hn::StoreU(narrow, HalfWordTag(), &out->bits);
  return result;
}

uint32_t RoundToBFloat16Impl(const float* in, size_t n, RoundingKey key, BFloat16* out) {
  const UintTag d;
  const UintVec b = hn::Set(d, key.b);
  const UintVec stride = hn::Set(d, kRoundingStride * static_cast<uint32_t>(kLanes));
  UintVec counter =
      hn::Add(hn::Mul(hn::Iota(d, 0), hn::Set(d, kRoundingStride)), hn::Set(d, key.a));
  UintVec largest = hn::Zero(d);
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    for (size_t lane = 0; lane < kGroupWords; lane += kLanes) {
      const UintVec words = Mix(counter, b);
      counter = hn::Add(counter, stride);
      const size_t low = i + lane;
      const size_t high = low + kGroupWords;
      const UintVec low_bits = hn::And(words, hn::Set(d, 0xffffu));
      largest = hn::Max(largest, RoundLanes(in + low, low_bits, out + low));
      largest = hn::Max(largest, RoundLanes(in + high, hn::ShiftRight<16>(words), out + high));
    }
  }
  HWY_ALIGN uint32_t lanes[kLanes];
  hn::Store(largest, d, lanes);
  uint32_t result = *std::max_element(lanes, lanes + kLanes);
  for (; i < n; ++i) {
    out[i] = RoundStochastically(in[i], RoundingBits(key, static_cast<uint32_t>(i)));
    result = std::max<uint32_t>(result, out[i].bits & 0x7fffu);
  }
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(RoundToBFloat16Impl);

float RoundToBFloat16(const float* in, int64_t n, RoundingKey key, BFloat16* out) {
  const uint32_t largest =
      DSLIDE_DISPATCH(RoundToBFloat16Impl)(in, static_cast<size_t>(n), key, out);
  return ToFloat(BFloat16{static_cast<uint16_t>(largest)});
}

}  // namespace dslide
#endif  // HWY_ONCE
