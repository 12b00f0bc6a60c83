// Memory that selections reuse.

#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/engine/lsh/hash_tables.h"
#include "core/system/huge_pages.h"

namespace dslide {

// Scratch memory of one thread for HashIndex::Select(); grows to num_rows once. Not thread-safe.
// One scratch may serve several indexes in turn.
class SelectScratch {
 public:
  // A part of a bucket that is to be read, and the query's sketch in its table.
  struct Read {
    BucketRows rows;
    uint64_t sketch = 0;  // as the signed rows have it
  };
  // What is known of one query. Several are on their way at a time, each a stage further than the
  // next, so that memory has been asked for long before it is needed.
  struct Query {
    std::vector<uint64_t> codes;        // packed
    std::vector<Read> reads;            // of its buckets
    int64_t rows_read = 0;              // with repetitions
    std::vector<LocalRow> seen;         // room for those to be ranked, labels not among them
    int64_t num_seen = 0;               // so many are
    std::vector<uint8_t> label_found;   // [labels]: 1 for one that a bucket offered
    std::vector<uint16_t> label_equal;  // [labels]: codes equal to the query's, 0 if not found
  };
  static constexpr int64_t kQueries = 3;
  std::array<Query, kQueries> queries;

  HugeVector<uint32_t> marks;       // two bits for each of num_rows, see candidates.cc
  std::vector<LocalRow> read;       // room for the rows of all buckets, with repetitions
  std::vector<uint8_t> equal_bits;  // [read]: bits of their sketches equal to the query's
  uint8_t expected_likeness = 0;    // enough rows are expected to have it: see candidates.cc
  uint16_t expected_equal = 0;      // codes that those taken of a pool are expected to share
  std::vector<uint16_t> equal;      // [seen]: codes equal to the query's
  std::vector<uint32_t> counts;     // [codes + 1], rows by equal codes
  std::vector<LocalRow> above;      // room for the rows with more of them than needed
  std::vector<LocalRow> ties;       // room for the rows with just as many
  std::vector<LocalRow> rest;       // candidates without a place
  std::vector<std::pair<uint64_t, LocalRow>> drawing;  // see candidate_draw.h

  // Where Select() adds up its time; not measured without a clock.
  const Clock* clock = nullptr;
  absl::Duration lookup_time;   // buckets read
  absl::Duration ranking_time;  // codes compared, the best taken
};

}  // namespace dslide
