// Where the best rows of a head are likely, whatever the query: among its longest ones.
//
// A logit is a length times a cosine, and the labels that training has seen often have the longest
// rows. To multiply all of those in 8 bits costs less than to look into as many buckets as would
// find them, and says more than codes do (docs/understand/hashing.md). Of rows with many columns a
// first pass reads a few numbers only, and tells which are worth multiplying.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/near/largest_estimates.h"
#include "core/engine/near/row_directions.h"
#include "core/engine/near/whole_rows.h"
#include "core/engine/rows/row_reader.h"

namespace dslide {

// Scratch memory of one thread. Not thread-safe.
struct LongRowsScratch {
  WholeRowsScratch whole;
  LargestScratch largest;
  std::vector<float> along;      // the query along the directions
  std::vector<float> estimates;  // of rows
  std::vector<uint32_t> near;    // places in the rows: what the first pass leaves
  std::vector<uint32_t> best;    // places in the rows, or in `near`
};

// As the rows are when it is made; equal bits for any number of threads. Immutable and thread-safe.
class LongRows {
 public:
  // So many of a whole table, of which a shard has its share, or all that there are; and as many as
  // fill kMostBytes.
  static constexpr int64_t kMost = 16384;
  static constexpr int64_t kMostBytes = int64_t{64} << 20;
  // Rows of so many columns have no first pass: it takes as long as it saves.
  static constexpr int64_t kFewColumns = 4 * RowDirections::kCount;
  // Nor have fewer rows than these.
  static constexpr int64_t kFewRows = 2048;
  // The first pass leaves one row of so many, and at least so many for each that is wanted; where
  // that is more than half of them there is none.
  static constexpr int64_t kRowsPerNear = 32;
  static constexpr int64_t kNearPerWanted = 4;
  static constexpr int64_t kLeastNear = 256;
  // Nor is there one where the directions hold less than this of the squares of the rows.
  static constexpr double kLeastHeld = 0.4;

  // The longest rows once centred, bias included, but for those that are left out; of equal ones
  // the smaller. mean: [dim + 1]; left_out: [rows], not 0 for those, or empty. Cost: reads all
  // rows.
  static LongRows Measure(const RowReader& reader, absl::Span<const float> mean,
                          Parallelism parallelism, absl::Span<const uint8_t> left_out = {});

  const std::vector<LocalRow>& rows() const { return rows_; }  // ascending
  bool Has(LocalRow row) const;
  // Whether there is a first pass, for queries that want few rows.
  bool has_first_pass() const { return along_.size() > 0; }

  // Appends the `count` rows whose logits are likely the largest, in an order of no meaning: those
  // with the largest products of their rounded weights with the rounded query, bias included; with
  // a first pass, of the rows that this leaves. Of equal ones the smaller row. hidden: [dim].
  void FindNear(absl::Span<const float> hidden, int64_t count, LongRowsScratch& scratch,
                std::vector<LocalRow>& found) const;

 private:
  void Round(const RowReader& reader, Parallelism parallelism);
  // squares: of the lengths of all rows of the store, centred.
  void MeasureDirections(const RowReader& reader, absl::Span<const float> mean,
                         absl::Span<const float> squares, Parallelism parallelism);
  // The rows as numbers along the directions. Returns the sum of the squares of those.
  double RoundAlong(const RowReader& reader, absl::Span<const float> mean, Parallelism parallelism);

  std::vector<LocalRow> rows_;
  WholeRows whole_;
  RowDirections directions_;  // with a first pass
  WholeRows along_;           // the centred rows along them; empty without one
};

}  // namespace dslide
