// Memory that selections reuse.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "core/base/huge_pages.h"
#include "core/base/ids.h"

namespace dslide {

// Scratch memory of one thread for HashIndex::Select(); grows to num_rows once. Not thread-safe.
// One scratch may serve several indexes in turn.
class SelectScratch {
 public:
  // What the present call knows of a row, as an offset from `call`; older values mean nothing.
  HugeVector<uint8_t> marks;  // [>= num_rows]
  uint8_t call = 0;
  std::vector<uint64_t> query;                      // the query's codes, packed
  std::vector<absl::Span<const LocalRow>> buckets;  // [num_tables], those of the query
  std::vector<LocalRow> read;         // room for the rows of all buckets, with repetitions
  std::vector<uint16_t> equal_bits;   // [read]: bits of their signatures equal to the query's
  std::vector<LocalRow> seen;         // room for those to be ranked, labels not among them
  std::vector<uint16_t> equal;        // [seen]: codes equal to the query's
  std::vector<uint16_t> label_equal;  // [labels]: the same, 0 for one that was not found
  std::vector<uint32_t> counts;       // [codes + 1], rows by equal codes
  std::vector<LocalRow> above;        // room for the rows with more of them than needed
  std::vector<LocalRow> ties;         // room for the rows with just as many

  // Where Select() adds up its time; not measured without a clock.
  const Clock* clock = nullptr;
  absl::Duration lookup_time;   // buckets read
  absl::Duration ranking_time;  // codes compared, the best taken
};

}  // namespace dslide
