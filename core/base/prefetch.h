// Hints that memory will be read soon, into the second level of the caches.
//
// Not into the first: such a hint waits for one of its few line buffers while lines come from
// memory (88 -> 66 ns for adding to a row of 512 bytes), and what is asked for would fill it. A
// hint for writing goes into the first one on processors that know it, so rows to be changed are
// asked for as if they were to be read.

#pragma once

#include <algorithm>
#include <cstdint>

namespace dslide {

inline constexpr int64_t kCacheLineBytes = 64;

// The line at `address`; any address, valid or not.
inline void PrefetchLine(const void* address) {
  constexpr int kToRead = 0;
  constexpr int kIntoL2 = 2;
  __builtin_prefetch(address, kToRead, kIntoL2);
}

// The lines of `bytes` from `address`, or the first of them: once a run of memory has begun, the
// processor asks for the rest by itself.
inline void PrefetchLines(const void* address, int64_t bytes) {
  constexpr int64_t kMaxBytes = 64 * kCacheLineBytes;
  const auto* const first = static_cast<const char*>(address);
  const int64_t end = std::min(bytes, kMaxBytes);
  for (int64_t at = 0; at < end; at += kCacheLineBytes) PrefetchLine(first + at);
}

}  // namespace dslide
