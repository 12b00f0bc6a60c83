#include "core/engine/lsh/candidate_draw.h"

#include <algorithm>

#include "core/base/counter_rng.h"

namespace dslide {

void DrawRows(absl::Span<LocalRow> rows, int64_t count, uint64_t key,
              std::vector<std::pair<uint64_t, LocalRow>>& scratch) {
  // The rows of the smallest random numbers: Floyd's algorithm would need an order of the rows.
  scratch.clear();
  for (const LocalRow row : rows) scratch.emplace_back(CounterBits(key, row.value()), row);
  std::nth_element(scratch.begin(), scratch.begin() + count, scratch.end());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = scratch[i].second;
}

}  // namespace dslide
