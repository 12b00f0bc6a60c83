// Inputs of the micro benchmarks.

#pragma once

#include <cstdint>

#include "core/base/counter_rng.h"
#include "core/system/aligned_buffer.h"

namespace dslide::bench {

// `n` floats in [-1, 1), the same for the same key.
inline AlignedBuffer RandomFloats(int64_t n, uint64_t key) {
  AlignedBuffer buffer = AlignedBuffer::Create(n).value();
  CounterRng rng(key);
  for (float& x : buffer.span()) x = 2.0f * rng.NextUniform() - 1.0f;
  return buffer;
}

// One GiB of them, larger than any cache, made once: touching fresh memory takes longer than most
// benchmarks.
inline AlignedBuffer& BigTable() {
  static AlignedBuffer table = [] {
    constexpr int64_t kFloats = int64_t{1} << 28;
    constexpr int64_t kPattern = 4096;
    AlignedBuffer buffer = AlignedBuffer::Create(kFloats).value();
    const AlignedBuffer pattern = RandomFloats(kPattern, 3);
    for (int64_t i = 0; i < kFloats; ++i) buffer.data()[i] = pattern.data()[i % kPattern];
    return buffer;
  }();
  return table;
}

}  // namespace dslide::bench
