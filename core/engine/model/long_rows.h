// Where the best rows of a head are likely, whatever the query: among its longest ones.
//
// A logit is a length times a cosine, and the labels that training has seen often have the longest
// rows. To look at the codes of all of those costs less than to look into as many buckets as would
// find them (docs/understand/hashing.md).

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/lsh/hash_index.h"
#include "core/engine/rows/row_reader.h"

namespace dslide {

// Scratch memory of one thread. Not thread-safe.
struct LongRowsScratch {
  std::vector<uint16_t> equal;   // [rows]
  std::vector<float> estimates;  // [rows]
  std::vector<uint32_t> counts;  // rows by estimate
  std::vector<uint32_t> ties;    // places in the rows
};

// As the rows are when it is made; equal bits for any number of threads. Immutable and thread-safe.
class LongRows {
 public:
  // So many, or all that there are.
  static constexpr int64_t kMost = 16384;

  // The longest rows once centred, bias included; of equal ones the smaller. mean: [dim + 1].
  // Cost: reads all rows.
  static LongRows Measure(const RowReader& reader, absl::Span<const float> mean,
                          Parallelism parallelism);

  const std::vector<LocalRow>& rows() const { return rows_; }  // ascending
  bool Has(LocalRow row) const;

  // Appends the `count` rows whose logits are likely the largest, in an order of no meaning: those
  // with the largest length^3 times the cosine that their codes have with the query's. (Length
  // counts for more than it does in a logit because codes know the cosine badly.) Of equal ones the
  // smaller row.
  //   index : of the same rows; fingerprints : [num_tables].
  void FindNear(const HashIndex& index, absl::Span<const uint32_t> fingerprints, int64_t count,
                LongRowsScratch& scratch, std::vector<LocalRow>& found) const;

 private:
  std::vector<LocalRow> rows_;
  std::vector<float> weights_;  // [rows]: length^3
};

}  // namespace dslide
