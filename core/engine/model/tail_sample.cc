#include "core/engine/model/tail_sample.h"

#include <algorithm>

#include "core/base/counter_rng.h"

namespace dslide {

uint64_t TailKey(uint64_t model_seed, int64_t step, uint64_t table) {
  return DeriveKey(DeriveKey(model_seed, static_cast<uint64_t>(step)), table);
}

int64_t ShareOfRows(int64_t count, int64_t shard_rows, int64_t table_rows) {
  const __int128 whole = std::max<int64_t>(table_rows, 1);
  return static_cast<int64_t>((static_cast<__int128>(count) * shard_rows + whole - 1) / whole);
}

void TailSample::Draw(int64_t num_rows, int64_t count, uint64_t key, std::vector<LocalRow>& rows) {
  rows.clear();
  if (count >= num_rows) {
    for (int64_t row = 0; row < num_rows; ++row)
      rows.push_back(LocalRow(static_cast<uint32_t>(row)));
    return;
  }
  if (static_cast<int64_t>(drawn_.size()) < num_rows) drawn_.resize(num_rows, 0);
  CounterRng rng(key);
  for (int64_t last = num_rows - count; last < num_rows; ++last) {
    // `last` itself was not reachable before, so it stands in for a row drawn twice.
    int64_t row = static_cast<int64_t>(rng.NextBelow(static_cast<uint64_t>(last) + 1));
    if (drawn_[row] != 0) row = last;
    drawn_[row] = 1;
    rows.push_back(LocalRow(static_cast<uint32_t>(row)));
  }
  std::sort(rows.begin(), rows.end());
  for (const LocalRow row : rows) drawn_[row.value()] = 0;
}

}  // namespace dslide
