// Bits behind each other: bit i is bit i % 8 of byte i / 8. A row of a matrix of them begins with a
// byte of its own.

#pragma once

#include <cstdint>

namespace dslide {

constexpr int64_t BytesOfBits(int64_t bits) { return (bits + 7) / 8; }

constexpr bool BitAt(const uint8_t* bits, int64_t i) { return (bits[i / 8] >> (i % 8) & 1) != 0; }

}  // namespace dslide
