// The scores of the sparse rows of one table for samples of few features.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/rows/record_store.h"
#include "core/engine/trees/row_lists.h"
#include "core/engine/trees/sample_scorer.h"

namespace dslide {

// Long rows are scored by lists of their columns once these are worth making (row_lists.h). Not
// thread-safe.
class TableScorer {
 public:
  // One sample, the rows that it asks for, and where their scores go, [rows]; a row that is absent
  // leaves its score as it is.
  struct Asked {
    absl::Span<const RowId> features;  // strictly ascending
    absl::Span<const float> values;    // [features]
    absl::Span<const LocalRow> rows;
    absl::Span<float> scores;
  };

  explicit TableScorer(Parallelism parallelism)
      : parallelism_(parallelism), scratch_(static_cast<size_t>(parallelism.threads)) {}

  // columns: above every column of the rows. Samples are shared by the threads; equal bits for any
  // number of them, and whatever is kept.
  void Score(const RecordStore& table, int64_t columns, absl::Span<const Asked> samples);

  // Counts samples that are about to be scored. When there were some since Forget(), lists the long
  // rows, in `room` bytes at most; 0 or less: the samples do not count.
  void Keep(const RecordStore& table, int64_t columns, int64_t samples, int64_t room);
  int64_t kept_bytes() const { return lists_ == nullptr ? 0 : lists_->memory_bytes(); }
  // To be called before the rows change.
  void Forget();

 private:
  // A thread's memory between samples.
  struct Scratch {
    SampleScorer scorer;
    std::vector<float> sums;     // of the lists
    std::vector<LocalRow> rows;  // that are not listed
    std::vector<size_t> places;  // of their scores
  };

  void ScoreSample(const RecordStore& table, int64_t columns, const Asked& asked,
                   Scratch& scratch) const;

  const Parallelism parallelism_;
  std::vector<Scratch> scratch_;
  std::unique_ptr<RowLists> lists_;  // null: not yet, or no more
  int64_t counted_ = 0;              // samples since then
};

}  // namespace dslide
