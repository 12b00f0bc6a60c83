// The long ones of a set of sparse rows by column: each column has a list of the rows with a weight
// there. A sample of few features then scores all of them by reading so many lists from front to
// back, where a search in each row waits for memory again and again.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/memory/posting_lists.h"
#include "core/engine/trees/sparse_row.h"

namespace dslide {

// Immutable and thread-safe; sums are the caller's.
class RowLists {
 public:
  // Shorter rows are scanned about as fast.
  static constexpr uint32_t kLeastEntries = 256;
  static constexpr uint32_t kNotListed = std::numeric_limits<uint32_t>::max();

  // The record of a row by its number; empty: it is absent.
  using RecordOf = absl::FunctionRef<absl::Span<const char>(uint32_t row)>;

  // Takes as many of the longest of the rows [0, rows) as fit into `room` bytes: all with 2^n
  // entries and more, n as small as possible. Nothing of the records is needed afterwards.
  //   columns : above every column of the rows
  RowLists(int64_t rows, RecordOf record_of, int64_t columns, int64_t room,
           Parallelism parallelism);

  int64_t memory_bytes() const;
  int64_t listed() const { return static_cast<int64_t>(biases_.size()); }

  // Where the row's sum is; kNotListed: it is not here.
  uint32_t PlaceOf(uint32_t row) const { return row < places_.size() ? places_[row] : kNotListed; }

  // The inner products of a sample with all rows that are listed, each summed in the order of the
  // columns. features: strictly ascending, of any size; values: [features].
  void AddUp(absl::Span<const RowId> features, absl::Span<const float> values,
             std::vector<float>& sums) const;
  // Equal to SparseRowView::Score() to the last bit.
  float Score(uint32_t place, const std::vector<float>& sums) const {
    return biases_[place] + sums[place];
  }

 private:
  // As many rows as a posting can tell apart.
  struct Block {
    int64_t first = 0;              // place of its first row
    std::vector<uint64_t> offsets;  // [columns + 1], of the postings
    std::vector<Posting> postings;  // of a column: by place

    absl::Span<const Posting> Of(RowId column) const {
      return absl::MakeConstSpan(postings).subspan(
          offsets[column.value()], offsets[column.value() + 1] - offsets[column.value()]);
    }
  };

  // Of so many rows with so many entries in all.
  int64_t BytesFor(int64_t rows, int64_t listed, int64_t entries) const;
  // The least number of entries of a row that is listed.
  uint64_t ChooseLeast(int64_t rows, RecordOf record_of, int64_t room) const;
  static Block MakeBlock(absl::Span<const SparseRowView> rows, int64_t columns,
                         Parallelism parallelism);

  int64_t columns_;
  std::vector<uint32_t> places_;  // [rows]; empty: none is listed
  std::vector<float> biases_;     // by place
  std::vector<Block> blocks_;
};

}  // namespace dslide
