// A table's rows as their reader wants them: as training has them, or averaged.

#pragma once

#include "core/base/ids.h"
#include "core/engine/rows/row_store.h"

namespace dslide {

// A view; the store outlives it. Thread safety: that of the store's const functions.
class RowReader {
 public:
  // As training has them.
  explicit RowReader(const RowStore& store) : store_(store) {}
  // Averaged as they are after update number `applied`, the table's newest; where the table keeps
  // no average, as training has them.
  static RowReader Averaged(const RowStore& store, Step applied) {
    return RowReader(store, applied, store.has_average());
  }

  const RowStore& store() const { return store_; }
  // The weights, or `scratch` ([store().stride()]) filled with them.
  const float* Weights(LocalRow row, float* scratch) const {
    if (!averaged_) return store_.ReadWeights(row, scratch);
    store_.ReadAverage(row, applied_, scratch);
    return scratch;
  }
  float Bias(LocalRow row) const {
    return averaged_ ? store_.AverageBias(row, applied_) : store_.Bias(row);
  }
  // Brings what is read towards the cache; a hint.
  void Prefetch(LocalRow row) const {
    averaged_ ? store_.PrefetchRecord(row) : store_.Prefetch(row);
  }

 private:
  RowReader(const RowStore& store, Step applied, bool averaged)
      : store_(store), applied_(applied), averaged_(averaged) {}

  const RowStore& store_;
  const Step applied_ = Step(0);
  const bool averaged_ = false;
};

}  // namespace dslide
