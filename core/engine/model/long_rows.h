// Where the best rows of a head are likely, whatever the query: among its longest ones.
//
// A logit is a length times a cosine, and the labels that training has seen often have the longest
// rows. To multiply all of those in 8 bits costs less than to look into as many buckets as would
// find them, and says more than codes do (docs/understand/hashing.md).

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/math/kernels_scan.h"
#include "core/engine/model/top_k.h"
#include "core/engine/rows/row_reader.h"

namespace dslide {

// Scratch memory of one thread. Not thread-safe.
struct LongRowsScratch {
  std::vector<ScanLine<int16_t>> query;
  std::vector<int32_t> products;  // [rows]
  std::vector<float> estimates;   // [rows]
  std::vector<uint32_t> counts;   // rows by estimate
  std::vector<uint32_t> ties;     // places in the rows
};

// As the rows are when it is made; equal bits for any number of threads. Immutable and thread-safe.
class LongRows {
 public:
  // So many, or all that there are, and as many as fill kMostBytes.
  static constexpr int64_t kMost = 16384;
  static constexpr int64_t kMostBytes = int64_t{64} << 20;

  // The longest rows once centred, bias included, but for those that are left out; of equal ones
  // the smaller. mean: [dim + 1]. Cost: reads all rows.
  static LongRows Measure(const RowReader& reader, absl::Span<const float> mean,
                          Parallelism parallelism, LeftOutRows left_out = {});

  const std::vector<LocalRow>& rows() const { return rows_; }  // ascending
  bool Has(LocalRow row) const;

  // Appends the `count` rows whose logits are likely the largest, in an order of no meaning: those
  // with the largest products of their rounded weights with the rounded query, bias included. Of
  // equal ones the smaller row. hidden: [dim].
  void FindNear(absl::Span<const float> hidden, int64_t count, LongRowsScratch& scratch,
                std::vector<LocalRow>& found) const;

 private:
  void Round(const RowReader& reader, Parallelism parallelism);
  void Estimate(absl::Span<const float> hidden, LongRowsScratch& scratch) const;

  std::vector<LocalRow> rows_;
  std::vector<ScannedRow> scanned_;      // [rows]
  std::vector<ScanLine<int8_t>> whole_;  // [rows, lines]
  int64_t columns_ = 0;                  // of a row's whole numbers
};

}  // namespace dslide
