#include "bench/rpc/random_rows.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "core/base/counter_rng.h"

namespace dslide::bench {

std::vector<RowId> RandomRows(int64_t count, int64_t table_rows, uint64_t seed) {
  CounterRng random(seed);
  absl::flat_hash_set<uint32_t> chosen;
  while (static_cast<int64_t>(chosen.size()) < count) {
    chosen.insert(static_cast<uint32_t>(random.NextBelow(static_cast<uint64_t>(table_rows))));
  }
  std::vector<RowId> rows;
  for (const uint32_t row : chosen) rows.emplace_back(row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace dslide::bench
