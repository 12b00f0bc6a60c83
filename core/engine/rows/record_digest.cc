#include "core/engine/rows/record_digest.h"

#include <bit>
#include <cstring>

#include "core/base/counter_rng.h"

namespace dslide {

// Each word goes through a bijection of the running value, so one changed word always changes the
// result.
uint64_t RecordDigest(RowId row, absl::Span<const char> record) {
  constexpr uint64_t kMultiplier = 0x9fb21c651e98df25ULL;
  uint64_t lanes[4] = {row.value(), 1, 2, 3};
  uint64_t words[4];
  const auto mix = [&] {
    for (int lane = 0; lane < 4; ++lane) {
      lanes[lane] = std::rotl(lanes[lane] ^ words[lane], 27) * kMultiplier;
    }
  };
  const size_t rest = record.size() % kRecordLineBytes;
  const char* const end = record.data() + record.size() - rest;
  for (const char* line = record.data(); line != end; line += kRecordLineBytes) {
    std::memcpy(words, line, sizeof(words));
    mix();
  }
  uint64_t hash = 0;
  if (rest > 0) {
    std::memset(words, 0, sizeof(words));
    std::memcpy(words, end, rest);
    mix();
    hash = record.size();
  }
  for (const uint64_t lane : lanes) hash = Mix64(hash + lane);
  return hash;
}

}  // namespace dslide
