#include "core/model/record_digest.h"

#include <bit>
#include <cstring>

#include "core/base/counter_rng.h"

namespace dslide {

// Each word goes through a bijection of the running value, so one changed word always changes the
// result.
uint64_t RecordDigest(RowId row, absl::Span<const char> record) {
  constexpr uint64_t kMultiplier = 0x9fb21c651e98df25ULL;
  uint64_t lanes[4] = {row.value(), 1, 2, 3};
  for (size_t i = 0; i < record.size(); i += kRecordLineBytes) {
    uint64_t words[4];
    std::memcpy(words, record.data() + i, sizeof(words));
    for (int lane = 0; lane < 4; ++lane) {
      lanes[lane] = std::rotl(lanes[lane] ^ words[lane], 27) * kMultiplier;
    }
  }
  uint64_t hash = 0;
  for (const uint64_t lane : lanes) hash = Mix64(hash + lane);
  return hash;
}

}  // namespace dslide
