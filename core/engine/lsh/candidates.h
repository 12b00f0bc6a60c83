// The rows that a query's buckets offer, and which of them are worth ranking. Internal to core/lsh.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/lsh/hash_tables.h"
#include "core/engine/lsh/row_codes.h"
#include "core/engine/lsh/select_scratch.h"
#include "core/engine/math/kernels_sketch.h"

namespace dslide {

// Where candidates are read.
struct CandidateSource {
  const HashTables& tables;
  const RowCodes& codes;
  uint64_t start_key;  // for the first row that is read of a large bucket
  int64_t read_cap;    // rows read of a bucket, at most
  // Rows to rank for each that the budget has room for. 0: all; then tables need no sketches.
  int64_t ranked_per_active;
};

// The first stage of a query: finds what will be read of its buckets and asks the memory system for
// it. Packs its codes.
//   fingerprints : [num_tables] of the codes, of which the first are the tables'.
//   most_tables  : the first so many tables are read; 0: all of them.
void FindReads(const CandidateSource& source, absl::Span<const uint32_t> fingerprints,
               int64_t most_tables, SelectScratch::Query& query);

// The second stage. Puts to query.seen, once each, in an order of no meaning, the rows that share a
// bucket with the query and look near to it. A row's likeness is the number of bits of its
// sketch that are the query's, the most in any of the tables in which it was read; the rows of
// the highest likenesses are taken, and with the last likeness all rows of it, until there are
// ranked_per_active * budget. All rows where no more are read, or where that is 0.
// Labels are not put there: query.label_found says whether one would have been. Asks the memory
// system for the codes of what it chose by likeness. Leaves room for as many rows as query.seen has
// room for in scratch.above and scratch.ties.
//   labels : sorted and unique, below num_rows.
void CollectCandidates(const CandidateSource& source, absl::Span<const LocalRow> labels,
                       int64_t budget, SelectScratch& scratch, SelectScratch::Query& query);

// The highest number in [low, high] that `wanted` of `counts` reach; `low` when fewer do. Looks
// from `guess` on, in steps of one, because neighbouring queries' are a few apart; a bad guess
// costs time and nothing else.
//   counts : [n]; guess : in [low, high].
template <typename Count>
Count HighestReached(const Count* counts, int64_t n, int64_t wanted, Count low, Count high,
                     Count guess) {
  const auto reached = [&](Count bound) { return CountAtLeast(counts, n, bound) >= wanted; };
  const auto next = [](Count bound, int step) { return static_cast<Count>(bound + step); };
  Count highest = guess;
  if (highest == low || reached(highest)) {
    while (highest < high && reached(next(highest, 1))) highest = next(highest, 1);
    return highest;
  }
  do {
    highest = next(highest, -1);
  } while (highest > low && !reached(highest));
  return highest;
}

// Rows as the plain numbers that vector kernels take.
inline const uint32_t* Numbers(const LocalRow* rows) {
  return reinterpret_cast<const uint32_t*>(rows);
}
inline uint32_t* Numbers(LocalRow* rows) { return reinterpret_cast<uint32_t*>(rows); }

}  // namespace dslide
