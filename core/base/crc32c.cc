#include "core/base/crc32c.h"

#include <nmmintrin.h>

#include <cstring>

namespace dslide {

// The baseline of every build is x86-64-v2, which has SSE4.2's crc32 instruction.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
  uint64_t state = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t tail = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++at) tail = _mm_crc32_u8(tail, static_cast<unsigned char>(*at));
  return ~tail;
}

}  // namespace dslide
