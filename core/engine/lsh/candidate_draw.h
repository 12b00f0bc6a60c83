// Draws some of the candidates that a query's budget has no room for. Internal to core/lsh.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// Moves `count` of `rows` to its front, each set of so many equally likely (up to the generator).
// Which they are depends on the rows and the key, not on the order of the rows.
//   rows    : unique
//   count   : at most rows.size()
//   scratch : overwritten, keeps its memory
// Cost: O(n), about 10 ns a row.
void DrawRows(absl::Span<LocalRow> rows, int64_t count, uint64_t key,
              std::vector<std::pair<uint64_t, LocalRow>>& scratch);

}  // namespace dslide
