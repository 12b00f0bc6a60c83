// The tables of one index: rows grouped by fingerprint. Internal to core/lsh.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/lsh/row_codes.h"
#include "core/engine/lsh/signed_row.h"
#include "core/system/huge_pages.h"

namespace dslide {

// The rows of a bucket, or of a part of it, where the tables hold them: ascending.
class BucketRows {
 public:
  BucketRows() = default;
  explicit BucketRows(absl::Span<const LocalRow> rows)
      : rows_(rows.data()), size_(static_cast<int64_t>(rows.size())) {}
  BucketRows(absl::Span<const uint64_t> signed_rows, SignedRowLayout layout)
      : signed_rows_(signed_rows.data()),
        layout_(layout),
        size_(static_cast<int64_t>(signed_rows.size())) {}

  int64_t size() const { return size_; }
  LocalRow operator[](int64_t i) const {
    return signed_rows_ != nullptr ? layout_.RowOf(signed_rows_[i]) : rows_[i];
  }
  BucketRows Part(int64_t first, int64_t size) const {
    BucketRows part = *this;
    part.size_ = size;
    if (signed_rows_ != nullptr) part.signed_rows_ += first;
    if (rows_ != nullptr) part.rows_ += first;
    return part;
  }
  // [size()]; null where there are sketches, and null where there are none.
  const LocalRow* rows() const { return rows_; }
  const uint64_t* signed_rows() const { return signed_rows_; }
  const void* memory() const {
    return signed_rows_ != nullptr ? static_cast<const void*>(signed_rows_) : rows_;
  }

 private:
  const LocalRow* rows_ = nullptr;
  const uint64_t* signed_rows_ = nullptr;
  SignedRowLayout layout_;  // of signed_rows_
  int64_t size_ = 0;
};

// Per table the rows in the order of (fingerprint, row), so that a bucket is one contiguous,
// ascending run; each with its sketch, if wanted. A row and its sketch lie together because
// sorting then writes half as many lines.
//
// Memory a row and table: 4 bytes of id, or 8 with a sketch, plus 4 bytes for each possible
// address: a fingerprint's upper bits, limited so that there are at most about four addresses a
// row. Where that leaves lower bits, a bucket is found by binary search among the rows of its
// address. Thread safety: const methods are concurrent; the caller excludes them during the others.
class HashTables {
 public:
  // Makes room for the first `num_tables` tables of codes of the shape of `codes`, all buckets
  // empty.
  void Reset(const RowCodes& codes, int64_t num_tables, bool with_sketches);

  // Sorts all rows by their fingerprints in `codes`, whose shape is that of Reset(). left_out:
  // [rows], not 0 for those that lie in no bucket, or empty.
  void Sort(const RowCodes& codes, Parallelism parallelism,
            absl::Span<const uint8_t> left_out = {});

  // The rows whose fingerprint in `table` is `fingerprint`, with sketches as of Sort(); none for
  // a fingerprint of too many bits. `codes` are those of Sort(). (Later ones do no harm: of the
  // rows of an address, some are taken or left by what they are now.)
  BucketRows Bucket(const RowCodes& codes, int64_t table, uint32_t fingerprint) const;

  // Asks the memory system for what Bucket() will read first.
  void PrefetchBucket(int64_t table, uint32_t fingerprint) const {
    __builtin_prefetch(&Offsets(table)[fingerprint >> shift_]);
  }

  int64_t num_tables() const { return num_tables_; }
  int64_t num_rows() const { return num_rows_; }
  // Of rows with sketches.
  SignedRowLayout layout() const { return layout_; }
  int64_t memory_bytes() const;
  // memory_bytes() after a Reset() with these.
  static int64_t BytesFor(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows,
                          bool with_sketches);

 private:
  uint32_t* Offsets(int64_t table) { return offsets_.data() + table * offsets_per_table_; }
  const uint32_t* Offsets(int64_t table) const {
    return offsets_.data() + table * offsets_per_table_;
  }
  LocalRow RowOf(LocalRow entry) const { return entry; }
  LocalRow RowOf(uint64_t entry) const { return layout_.RowOf(entry); }
  // Entry: LocalRow, or uint64_t for signed rows; entries: [num_tables, num_rows].
  template <typename Entry>
  void SortTable(const RowCodes& codes, int64_t table, absl::Span<const uint8_t> left_out,
                 HugeVector<Entry>& entries);
  template <typename Entry>
  void SortRunsOfAddresses(const RowCodes& codes, int64_t table, Entry* entries) const;
  template <typename Entry>
  BucketRows Find(const RowCodes& codes, int64_t table, uint32_t fingerprint,
                  const HugeVector<Entry>& entries) const;

  int64_t num_tables_ = 0;
  int64_t num_rows_ = 0;
  int64_t fingerprint_bits_ = 0;
  int64_t shift_ = 0;              // address = fingerprint >> shift_
  int64_t offsets_per_table_ = 0;  // addresses + 2: see SortTable
  HugeVector<uint32_t> offsets_;   // [num_tables, offsets_per_table]
  bool with_sketches_ = false;
  SignedRowLayout layout_;
  HugeVector<LocalRow> rows_;         // [num_tables, num_rows] without sketches, else none
  HugeVector<uint64_t> signed_rows_;  // [num_tables, num_rows] with sketches, else none
};

}  // namespace dslide
