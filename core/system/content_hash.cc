#include "core/system/content_hash.h"

#include <algorithm>

#include "core/base/counter_rng.h"
#include "core/base/crc32c.h"

namespace dslide {

uint64_t HashContent(uint64_t hash, absl::string_view bytes) {
  return CounterBits(CounterBits(hash, bytes.size()), ExtendCrc32c(0, bytes));
}

uint64_t HashContentSample(uint64_t hash, absl::string_view bytes) {
  constexpr size_t kEndBytes = 64 << 10;
  constexpr size_t kBlockBytes = 4 << 10;
  constexpr size_t kBlocks = 64;
  hash = CounterBits(hash, bytes.size());
  hash = HashContent(hash, bytes.substr(0, kEndBytes));
  if (bytes.size() <= kEndBytes) return hash;
  hash = HashContent(hash, bytes.substr(bytes.size() - kEndBytes));
  const size_t stride = std::max(kBlockBytes, bytes.size() / kBlocks);
  for (size_t at = 0; at < bytes.size(); at += stride) {
    hash = HashContent(hash, bytes.substr(at, kBlockBytes));
  }
  return hash;
}

}  // namespace dslide
