// Arrays without their zeros.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_nonzero.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

inline constexpr size_t kBitsOfByte = 8;
// Numbers whose bits fill whole bytes.
inline constexpr size_t kGroup = kLanes < kBitsOfByte ? kBitsOfByte : kLanes;

// At most 8 numbers, one after the other.
HWY_INLINE size_t PackByte(const float* HWY_RESTRICT x, size_t n, uint8_t* HWY_RESTRICT bits,
                           float* HWY_RESTRICT packed) {
  size_t count = 0;
  uint32_t byte = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t is_there = std::bit_cast<uint32_t>(x[i]) != 0 ? 1 : 0;
    packed[count] = x[i];
    count += is_there;
    byte |= is_there << i;
  }
  *bits = static_cast<uint8_t>(byte);
  return count;
}

size_t PackNonzeroImpl(const float* HWY_RESTRICT x, size_t n, uint8_t* HWY_RESTRICT bits,
                       float* HWY_RESTRICT packed) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  size_t count = 0;
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    uint32_t group = 0;
    for (size_t part = 0; part < kGroup; part += kLanes) {
      const FloatVec v = hn::LoadU(d, x + i + part);
      const auto is_there = hn::Ne(hn::BitCast(du, v), hn::Zero(du));
      uint8_t lanes[kBitsOfByte] = {};
      hn::StoreMaskBits(du, is_there, lanes);
      uint32_t mask = 0;
      std::memcpy(&mask, lanes, sizeof(mask));
      group |= mask << part;
      // Writes a whole vector: as many numbers were read.
      hn::StoreU(hn::Compress(v, hn::RebindMask(d, is_there)), d, packed + count);
      count += static_cast<size_t>(std::popcount(mask));
    }
    std::memcpy(bits + i / kBitsOfByte, &group, kGroup / kBitsOfByte);
  }
  for (; i < n; i += kBitsOfByte) {
    count += PackByte(x + i, std::min(kBitsOfByte, n - i), bits + i / kBitsOfByte, packed + count);
  }
  return count;
}

// At most 8 numbers, one after the other.
HWY_INLINE size_t UnpackByte(const float* HWY_RESTRICT packed, uint32_t byte, size_t n,
                             float* HWY_RESTRICT x) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    x[i] = (byte >> i & 1) != 0 ? packed[count++] : 0.0f;
  }
  return count;
}

size_t UnpackNonzeroImpl(const float* HWY_RESTRICT packed, const uint8_t* HWY_RESTRICT bits,
                         size_t n, float* HWY_RESTRICT x) {
  size_t count = 0;
  size_t i = 0;
#if HWY_MAX_BYTES == 64
  for (; i + kGroup <= n; i += kGroup) {
    uint16_t mask = 0;
    std::memcpy(&mask, bits + i / kBitsOfByte, sizeof(mask));
    const auto here = static_cast<uint32_t>(std::popcount(mask));
    const auto first = static_cast<__mmask16>((uint32_t{1} << here) - 1);
    const __m512 numbers = _mm512_maskz_loadu_ps(first, packed + count);
    _mm512_storeu_ps(x + i, _mm512_maskz_expand_ps(mask, numbers));
    count += here;
  }
#endif
  for (; i < n; i += kBitsOfByte) {
    count += UnpackByte(packed + count, bits[i / kBitsOfByte], std::min(kBitsOfByte, n - i), x + i);
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(PackNonzeroImpl);
HWY_EXPORT(UnpackNonzeroImpl);

int64_t PackNonzero(const float* x, int64_t n, uint8_t* bits, float* packed) {
  return static_cast<int64_t>(
      DSLIDE_DISPATCH(PackNonzeroImpl)(x, static_cast<size_t>(n), bits, packed));
}

int64_t UnpackNonzero(const float* packed, const uint8_t* bits, int64_t n, float* x) {
  return static_cast<int64_t>(
      DSLIDE_DISPATCH(UnpackNonzeroImpl)(packed, bits, static_cast<size_t>(n), x));
}

}  // namespace dslide
#endif  // HWY_ONCE
