// The labels of a dataset's points, side by side: what need not be asked of shards.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/data/dataset.h"

namespace dslide {

// Immutable.
class PointLabels {
 public:
  // Errors: those of the data.
  static absl::StatusOr<PointLabels> Read(const Dataset& data);

  int64_t points() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // point: in [0, points()). Strictly ascending.
  absl::Span<const RowId> Of(int64_t point) const {
    const auto at = static_cast<size_t>(point);
    return absl::MakeConstSpan(labels_).subspan(offsets_[at], offsets_[at + 1] - offsets_[at]);
  }

 private:
  std::vector<size_t> offsets_ = {0};
  std::vector<RowId> labels_;
};

}  // namespace dslide
