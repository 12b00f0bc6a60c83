// Which rows of a store have changed since which cut: a byte a row, which whoever writes rows sets.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace dslide {

// The rows of one store that had changed since a cut, as they were known at a later one. Rows that
// were to change and did not (their update was refused) may be among them; no other row is missing.
// Thread safety: constant.
class ChangedRows {
 public:
  ChangedRows(std::vector<uint8_t> marks, uint8_t since)
      : marks_(std::move(marks)), since_(since) {}

  bool Has(LocalRow row) const { return marks_[row.value()] > since_; }
  // A pass over all marks.
  int64_t Count() const;

 private:
  std::vector<uint8_t> marks_;  // [rows]
  uint8_t since_;
};

// The rows' marks are the number of the interval between two cuts in which they last changed, so
// that nothing is lost when a checkpoint fails: the next one asks for what has changed since an
// earlier cut, over all intervals between.
//
// Thread safety: different rows may be marked at the same time; nothing else meanwhile.
class RowChanges {
 public:
  explicit RowChanges(int64_t num_rows) : marks_(num_rows, 0) {}

  void Mark(LocalRow row) { marks_[row.value()] = interval_; }
  // A hint that the row will be marked soon.
  void Prefetch(LocalRow row) const { __builtin_prefetch(&marks_[row.value()], 1); }

  // Ends an interval. `cut` names its end from now on, and no earlier one. After kMaxCuts all
  // earlier cuts are forgotten.
  void Cut(uint64_t cut);
  static constexpr uint8_t kMaxCuts = 254;

  // What has changed since that cut; nothing when it is not known (any more). Costs a copy of the
  // marks.
  std::optional<ChangedRows> Since(uint64_t cut) const;

 private:
  struct End {
    uint64_t cut = 0;
    uint8_t interval = 0;
  };

  std::vector<uint8_t> marks_;  // [rows]; 0: never changed
  uint8_t interval_ = 1;
  std::vector<End> ends_;
};

}  // namespace dslide
