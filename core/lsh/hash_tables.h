// The tables of one index: rows grouped by fingerprint. Internal to core/lsh.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/huge_pages.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/lsh/row_codes.h"

namespace dslide {

// Per table the rows in the order of (fingerprint, row), so that a bucket is one contiguous,
// ascending run. Beside each, if wanted, its signature, by which a selection knows most of the rows
// that it need not look at.
//
// Memory a row and table: 4 bytes of id, 4 of signature, plus 4 bytes for each possible address: a
// fingerprint's upper bits, limited so that there are at most about four addresses a row. Where
// that leaves lower bits, a bucket is found by binary search among the rows of its address. Thread
// safety: const methods are concurrent; the caller excludes them during the others.
class HashTables {
 public:
  // Makes room for tables of codes of the shape of `codes`, all buckets empty.
  void Reset(const RowCodes& codes, bool with_signatures);

  // Sorts all rows by their fingerprints in `codes`, whose shape is that of Reset().
  void Sort(const RowCodes& codes, Parallelism parallelism);

  // The rows whose fingerprint in `table` is `fingerprint`, ascending; none for a fingerprint of
  // too many bits. `codes` are those of Sort(). (Later ones do no harm: of the rows of an address,
  // some are taken or left by what they are now.)
  absl::Span<const LocalRow> Bucket(const RowCodes& codes, int64_t table,
                                    uint32_t fingerprint) const;

  // The signatures of the rows of a Bucket(), or of a part of it, as of Sort(); null without any.
  const uint32_t* Signatures(absl::Span<const LocalRow> bucket) const {
    if (signatures_.empty() || bucket.empty()) return nullptr;
    return signatures_.data() + (bucket.data() - ids_.data());
  }

  // Asks the memory system for what Bucket() will read first.
  void PrefetchBucket(int64_t table, uint32_t fingerprint) const {
    __builtin_prefetch(&Offsets(table)[fingerprint >> shift_]);
  }

  int64_t num_rows() const { return num_rows_; }
  int64_t memory_bytes() const;
  // memory_bytes() after a Reset() with these.
  static int64_t BytesFor(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows,
                          bool with_signatures);

 private:
  uint32_t* Offsets(int64_t table) { return offsets_.data() + table * offsets_per_table_; }
  const uint32_t* Offsets(int64_t table) const {
    return offsets_.data() + table * offsets_per_table_;
  }
  void SortTable(const RowCodes& codes, int64_t table);
  void SortRunsOfAddresses(const RowCodes& codes, int64_t table);

  int64_t num_tables_ = 0;
  int64_t num_rows_ = 0;
  int64_t fingerprint_bits_ = 0;
  int64_t shift_ = 0;              // address = fingerprint >> shift_
  int64_t offsets_per_table_ = 0;  // addresses + 2: see SortTable
  HugeVector<uint32_t> offsets_;   // [num_tables, offsets_per_table]
  HugeVector<LocalRow> ids_;       // [num_tables, num_rows]
  // [num_tables, num_rows], those of ids_; or none.
  HugeVector<uint32_t> signatures_;
};

}  // namespace dslide
