#include "core/model/tail_sample.h"

#include <algorithm>

#include "core/base/counter_rng.h"

namespace dslide {

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
