// The codes of all rows of an index, packed for counting how many a row shares with a query.
// Internal to core/lsh.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/math/kernels_sketch.h"
#include "core/system/huge_pages.h"

namespace dslide {

// A row's fingerprints side by side in 64-bit words, whole fingerprints to a word: a row is one
// short run of memory, and comparing it with a query is an XOR and a population count per word.
// Memory a row: 8 bytes for each 64 / fingerprint_bits tables, rounded up.
//
// Thread safety: const methods are concurrent; the caller excludes them during the others.
class RowCodes {
 public:
  // Forgets everything and makes room for `num_rows` rows of `num_tables` fingerprints of
  // `codes_per_table` codes, `bits_per_code` bits each.
  void Reset(int64_t num_tables, int64_t codes_per_table, int64_t bits_per_code, int64_t num_rows);

  // Stores the fingerprints ([num_tables]) of `row`. Concurrent calls for different rows are
  // allowed.
  void Set(int64_t row, const uint32_t* fingerprints) {
    Pack(fingerprints, &words_[row * stride_]);
  }

  // Writes a query's fingerprints ([num_tables]) to `words` ([words_per_row]). Bits that no
  // fingerprint of this index has are ignored.
  void Pack(const uint32_t* fingerprints, uint64_t* words) const;

  // Writes to equal[i] how many of the num_codes() codes of rows[i] equal those of the packed
  // query.
  void CountEqual(absl::Span<const LocalRow> rows, const uint64_t* query, uint16_t* equal) const;

  // Copies the codes of `rows` to columns: word w of rows[i] to columns[w * stride + i].
  void CopyToColumns(absl::Span<const LocalRow> rows, int64_t stride, uint64_t* columns) const;

  // How the codes lie in their words.
  const CodeShape& shape() const { return shape_; }

  // Asks the memory system for the codes of `rows`.
  void Prefetch(absl::Span<const LocalRow> rows) const;

  // Where the sketch of one table is in packed codes: the 64 bits that follow the table's
  // fingerprint, which are the rest of its word, then the next word (after the last one the first)
  // from its lowest bit, then zeros.
  class SketchOf {
   public:
    // Of a row's or a query's packed codes.
    uint64_t operator()(const uint64_t* words) const {
      // In two steps, because a shift by all 64 bits is not defined.
      const uint64_t rest = words[word_] >> last_own_bit_ >> 1;
      return rest | words[next_word_] << rest_bits_;
    }

   private:
    friend class RowCodes;
    int64_t word_;
    int64_t next_word_;
    int64_t last_own_bit_;
    int64_t rest_bits_;
  };
  SketchOf SketchFor(int64_t table) const;
  // The packed codes of a row.
  const uint64_t* WordsOf(LocalRow row) const { return &words_[row.value() * stride_]; }

  // The fingerprints of one table. Valid while the codes are; sees later Set()s.
  class Column {
   public:
    uint32_t operator[](int64_t row) const {
      return static_cast<uint32_t>(words_[row * stride_] >> shift_) & mask_;
    }

   private:
    friend class RowCodes;
    const uint64_t* words_;  // that of row 0 which holds the table's fingerprint
    int64_t stride_;
    int64_t shift_;
    uint32_t mask_;
  };
  Column Fingerprints(int64_t table) const {
    Column column;
    column.words_ = words_.data() + table / tables_per_word_;
    column.stride_ = stride_;
    column.shift_ = table % tables_per_word_ * fingerprint_bits_;
    column.mask_ = fingerprint_mask_;
    return column;
  }

  // [num_rows, words_per_row].
  absl::Span<const uint64_t> words() const { return words_; }
  // Takes those of codes of the same shape.
  void SetWords(absl::Span<const uint64_t> words) { words_.assign(words.begin(), words.end()); }

  int64_t num_tables() const { return num_tables_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t fingerprint_bits() const { return fingerprint_bits_; }
  int64_t num_codes() const { return shape_.num_codes; }
  int64_t words_per_row() const { return stride_; }
  int64_t memory_bytes() const {
    return static_cast<int64_t>(words_.capacity() * sizeof(uint64_t));
  }
  // memory_bytes() after a Reset() with these. Requires fingerprint_bits in [1, 64].
  static int64_t BytesFor(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows) {
    return num_rows * WordsPerRow(num_tables, fingerprint_bits) *
           static_cast<int64_t>(sizeof(uint64_t));
  }

 private:
  static int64_t WordsPerRow(int64_t num_tables, int64_t fingerprint_bits) {
    const int64_t tables_per_word = 64 / fingerprint_bits;
    return (num_tables + tables_per_word - 1) / tables_per_word;
  }
  template <int64_t kWords>
  void CountEqualBits(absl::Span<const LocalRow> rows, const uint64_t* query,
                      uint16_t* equal) const;

  int64_t num_tables_ = 0;
  int64_t num_rows_ = 0;
  CodeShape shape_ = {0, 1, 0};
  int64_t fingerprint_bits_ = 0;
  uint32_t fingerprint_mask_ = 0;
  int64_t tables_per_word_ = 1;
  int64_t stride_ = 0;          // words of a row
  HugeVector<uint64_t> words_;  // [num_rows, stride]
};

}  // namespace dslide
