// The candidates that the samples of a batch share.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/lsh/row_codes.h"
#include "core/engine/lsh/select_scratch.h"
#include "core/engine/lsh/selection.h"
#include "core/system/huge_pages.h"

namespace dslide {

// The rows that some sample of a batch proposed, and the labels of all, with copies of their codes:
// few enough for a cache, so that every sample can rank all of them by all codes, which takes less
// time than looking up a tenth as many rows at random places. Keeps its memory from batch to batch.
//
// Use: Reset(), Propose() and AddLabels() in this order, Collect(); then Rank(). Thread safety:
// const methods are concurrent; the caller excludes them during the others.
class CandidatePool {
 public:
  // Empties the pool. It will take rows below `num_rows`.
  void Reset(int64_t num_rows);
  // Rows that hashing found; repetitions do no harm.
  void Propose(absl::Span<const LocalRow> rows);
  // Rows that are there whether hashing found them or not.
  void AddLabels(absl::Span<const LocalRow> labels);
  // Sorts the rows and copies their codes.
  void Collect(const RowCodes& codes, Parallelism parallelism);

  // The rows collected, ascending.
  absl::Span<const LocalRow> rows() const { return rows_; }

  // Selects a query's labels, then those rows of the pool that have the most codes of the query
  // (ties: the smaller row first; none without an equal code) up to `budget` rows in all. A label
  // is missed that nobody proposed, or that as a mere row of the pool would not have been taken.
  //   codes : those that were collected from
  //   query : its labels are in the pool.
  void Rank(const RowCodes& codes, const HashQuery& query, int64_t budget, SelectScratch& scratch,
            Selection& selection) const;

 private:
  bool Insert(LocalRow row);
  bool WouldBeTaken(int64_t place, const uint16_t* equal, uint16_t cutoff, int64_t budget) const;

  HugeVector<uint64_t> marks_;         // a bit for each of num_rows; all 0 once collected
  std::vector<uint64_t> marked_;       // a bit for each word of marks_ that is not 0
  std::vector<LocalRow> labels_only_;  // labels that nobody proposed; sorted once collected
  std::vector<LocalRow> rows_;
  HugeVector<uint64_t> columns_;  // [words_per_row, stride_] codes of rows_
  int64_t stride_ = 0;
};

}  // namespace dslide
