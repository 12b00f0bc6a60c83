// The smallest of a few hundred rows by dealing them into bins of 8 bits, several times faster than
// std::nth_element, whose branches are mispredicted. Internal to core/lsh.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// Moves the `count` smallest of `rows` to its front, in an order of no meaning.
//   rows   : unique, below num_rows; what is behind the first `count` is lost.
//   count  : at most rows.size().
//   buffer : [>= rows.size()], overwritten; does not overlap `rows`.
// Cost: O(n).
void KeepSmallest(absl::Span<LocalRow> rows, int64_t count, int64_t num_rows,
                  absl::Span<LocalRow> buffer);

}  // namespace dslide
