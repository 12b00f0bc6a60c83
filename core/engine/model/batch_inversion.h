// Turns "rows of each sample" into "samples of each row", so that a row is loaded once a batch.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/system/huge_pages.h"

namespace dslide {

// (row, tag) pairs grouped by row; a tag is what the caller wants to know of the pair, for example
// its sample. Keeps its memory from batch to batch: no allocation in steady state. Not thread-safe.
class BatchInversion {
 public:
  // A pair as a sortable key.
  static constexpr uint64_t Key(LocalRow row, uint32_t tag) {
    return uint64_t{row.value()} << 32 | tag;
  }

  // Makes room for `pairs` keys, to be filled by the caller in any order.
  absl::Span<uint64_t> ResizeKeys(int64_t pairs);

  // Groups the keys by row; pairs of one row keep the order in which the keys stand. Rows are below
  // `num_rows`. Cost: a few counting passes over the pairs, nothing over the rows. The result does
  // not depend on the number of threads.
  void Invert(int64_t num_rows, Parallelism parallelism);

  // Distinct rows, ascending.
  absl::Span<const LocalRow> rows() const { return rows_; }
  // [rows + 1]: row i has the tags [offsets[i], offsets[i + 1]).
  absl::Span<const uint32_t> offsets() const { return offsets_; }
  // [pairs].
  absl::Span<const uint32_t> tags() const { return tags_; }

 private:
  // A run of the sorted keys whose rows share their highest bits.
  struct Bucket {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t rows = 0;  // distinct
  };
  void DealIntoBuckets(int low_bits, int bucket_bits, int parts);
  void SortBucket(Bucket& bucket, int bits);

  HugeVector<uint64_t> keys_;
  HugeVector<uint64_t> buffer_;
  std::vector<Bucket> buckets_;
  std::vector<uint32_t> places_;  // [parts, buckets]
  std::vector<LocalRow> rows_;
  std::vector<uint32_t> offsets_;
  HugeVector<uint32_t> tags_;
};

}  // namespace dslide
