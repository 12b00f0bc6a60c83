// Identities that differ between processes. The only randomness that is not reproducible: never let
// anything but a comparison depend on it.

#pragma once

#include <array>
#include <cstdint>

namespace dslide {

// 128 bits from the operating system.
std::array<uint8_t, 16> RandomId();

}  // namespace dslide
