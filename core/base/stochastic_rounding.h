// Rounding to bfloat16 up or down at random, so that a sum of many small changes is right on
// average: a change of a hundredth of the distance between two bf16 numbers moves the stored value
// by that distance once in a hundred times. Rounding to nearest would lose all of them.
//
// The random bits are a pure function of a key and the element's number, in 32-bit integer
// arithmetic: equal on every machine and in every language. The mixing constants are those of
// lowbias32 (Ellis, Wellons 2018, "Prospecting for hash functions"). Not for cryptography.

#pragma once

#include <bit>
#include <cstdint>

#include "core/base/bfloat16.h"

namespace dslide {

// Of one vector of one row in one update.
struct RoundingKey {
  uint32_t a = 0;
  uint32_t b = 0;

  // From 64 well-mixed bits (counter_rng.h).
  static constexpr RoundingKey Of(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
  }
};

inline constexpr uint32_t kRoundingStride = 0x9e3779b9u;
inline constexpr uint32_t kRoundingMultiplier1 = 0x7feb352du;
inline constexpr uint32_t kRoundingMultiplier2 = 0x846ca68bu;

// 32 random bits.
constexpr uint32_t RoundingWord(RoundingKey key, uint32_t index) {
  uint32_t x = key.a + index * kRoundingStride;
  x ^= x >> 16;
  x *= kRoundingMultiplier1;
  x ^= x >> 15;
  x ^= key.b;
  x *= kRoundingMultiplier2;
  x ^= x >> 16;
  return x;
}

// The 16 bits of an element. A word serves two elements, 16 apart, so that vectors of any length up
// to 16 use both halves without moving lanes.
constexpr uint16_t RoundingBits(RoundingKey key, uint32_t element) {
  const uint32_t word = RoundingWord(key, element / 32 * 16 + element % 16);
  return static_cast<uint16_t>(element % 32 < 16 ? word & 0xffffu : word >> 16);
}

// The bf16 number next to `value` towards 0, or the one away from 0 when the part cut off plus
// `random` reaches 2^16: with a probability equal to the part. bf16 numbers stay as they are; a
// finite value never becomes infinite; infinity stays, NaN stays NaN.
constexpr BFloat16 RoundStochastically(float value, uint16_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x0040u)};
  if (magnitude == 0x7f800000u) return {static_cast<uint16_t>(bits >> 16)};
  const uint32_t rounded = (magnitude + random) >> 16;
  return {static_cast<uint16_t>(sign | (rounded < 0x7f80u ? rounded : 0x7f7fu))};
}

}  // namespace dslide
