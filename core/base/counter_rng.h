// Counter-based random numbers: a value is a pure function of (key, counter), so that a row has the
// same first weights on any shard and a replayed command draws the same numbers.
//
// Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom
// number generators"), applied to the counter and the key in two rounds. Not for cryptography.

#pragma once

#include <cstdint>

namespace dslide {

// Mixes 64 bits so that each input bit changes about half of the output bits.
constexpr uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

// 64 random bits of (key, counter).
constexpr uint64_t CounterBits(uint64_t key, uint64_t counter) {
  return Mix64(Mix64(key + 0x9e3779b97f4a7c15ULL) ^ (counter * 0x9e3779b97f4a7c15ULL + key));
}

// A key for a named part of a larger key: DeriveKey(seed, table) and so on.
constexpr uint64_t DeriveKey(uint64_t key, uint64_t part) {
  return CounterBits(key ^ 0x6a09e667f3bcc909ULL, part);
}

// A sequence of numbers of one key, starting at counter 0. Cheap to copy; not thread-safe.
class CounterRng {
 public:
  explicit constexpr CounterRng(uint64_t key) : key_(key) {}

  constexpr uint64_t NextBits() { return CounterBits(key_, counter_++); }

  // Uniform in [0, 1), 24 bits of resolution.
  constexpr float NextUniform() {
    return static_cast<float>(NextBits() >> 40) * (1.0f / 16777216.0f);
  }

  // Uniform in [0, bound). Requires bound >= 1. Bias below 2^-32 for bounds below 2^32.
  constexpr uint64_t NextBelow(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(NextBits()) * bound) >> 64);
  }

  // Standard normal deviate (Box-Muller, one of the pair is used).
  float NextGaussian();

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace dslide
