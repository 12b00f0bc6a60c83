// bfloat16: the upper half of an IEEE-754 binary32. Storage and wire format only; arithmetic is
// f32.

#pragma once

#include <bit>
#include <cstdint>

namespace dslide {

struct BFloat16 {
  uint16_t bits = 0;
};

// Rounds to nearest, ties to even. NaN stays NaN; values beyond the range become infinity.
constexpr BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return BFloat16{static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  }
  return BFloat16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// Exact.
constexpr float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

}  // namespace dslide
