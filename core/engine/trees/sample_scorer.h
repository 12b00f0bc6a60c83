// The scores of many sparse rows for one sample of few features.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/trees/sparse_row.h"

namespace dslide {

// Keeps its memory from sample to sample. Not thread-safe.
class SampleScorer {
 public:
  // The sample that is scored from now on. features: strictly ascending, below `columns`; values:
  // [features]. `columns` is above every column of the rows.
  void Set(absl::Span<const RowId> features, absl::Span<const float> values, int64_t columns);

  // The inner product with the sample plus the row's bias, summed in the order of the columns:
  // equal to SparseRowView::Score() to the last bit.
  float Score(SparseRowView row);

 private:
  float ScoreBySearch(SparseRowView row);

  std::vector<uint32_t> features_;
  std::vector<float> values_;
  std::vector<uint32_t> places_;  // [features]: in a row's columns; scratch
  std::vector<float> dense_;      // [columns]; the values, 0 elsewhere
};

}  // namespace dslide
