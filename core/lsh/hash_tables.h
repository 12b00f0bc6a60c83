// The tables of one index: rows grouped by fingerprint. Internal to core/lsh.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"

namespace dslide {

// Keeps each row's fingerprints, and per table the rows in the order of (fingerprint, row), so that
// a bucket is one contiguous, ascending run.
//
// Memory a row and table: 4 bytes of id, and 2 bytes of fingerprint (4 when fingerprints have more
// than 16 bits), plus 4 bytes for each possible address: a fingerprint's upper bits, limited so
// that there are at most about four addresses a row. Where that leaves lower bits, a bucket is
// found by binary search among the rows of its address. Thread safety: const methods are
// concurrent; the caller excludes them during the others.
class HashTables {
 public:
  // Forgets everything and makes room for `num_rows` rows of `num_tables` fingerprints.
  void Reset(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows);

  // Stores the fingerprints ([num_tables]) of `row`; they count from the next Sort(). Concurrent
  // calls for different rows are allowed.
  void SetFingerprints(int64_t row, const uint32_t* fingerprints);

  // Brings the tables up to date with the fingerprints.
  void Sort(Parallelism parallelism);

  // The rows whose fingerprint in `table` is `fingerprint`, ascending; none for a fingerprint of
  // too many bits.
  absl::Span<const LocalRow> Bucket(int64_t table, uint32_t fingerprint) const;

  // Asks the memory system for what Bucket() will read first.
  void PrefetchBucket(int64_t table, uint32_t fingerprint) const {
    __builtin_prefetch(&Offsets(table)[fingerprint >> shift_]);
  }

  int64_t num_rows() const { return num_rows_; }
  int64_t memory_bytes() const;
  // memory_bytes() after a Reset() with these.
  static int64_t BytesFor(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows);

 private:
  uint32_t Fingerprint(int64_t table, int64_t row) const {
    const int64_t at = table * num_rows_ + row;
    return wide_.empty() ? narrow_[at] : wide_[at];
  }
  uint32_t* Offsets(int64_t table) { return offsets_.data() + table * offsets_per_table_; }
  const uint32_t* Offsets(int64_t table) const {
    return offsets_.data() + table * offsets_per_table_;
  }
  template <typename Print>
  void SortTable(int64_t table, const Print* fingerprints);

  int64_t num_tables_ = 0;
  int64_t num_rows_ = 0;
  int64_t fingerprint_bits_ = 0;
  int64_t shift_ = 0;              // address = fingerprint >> shift_
  int64_t offsets_per_table_ = 0;  // addresses + 2: see SortTable
  // Fingerprints, [num_tables, num_rows]: one of the two is used, by the bits of a fingerprint.
  std::vector<uint16_t> narrow_;
  std::vector<uint32_t> wide_;
  std::vector<uint32_t> offsets_;  // [num_tables, offsets_per_table]
  std::vector<LocalRow> ids_;      // [num_tables, num_rows]
};

}  // namespace dslide
