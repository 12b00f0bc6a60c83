#include "core/engine/trees/label_centroid.h"

#include <cmath>

namespace dslide {

std::string CentroidRecord(PointViews points, absl::Span<const uint32_t> mine, DenseRow& scratch) {
  for (const uint32_t id : mine) {
    const PointView point = points[id];
    const absl::Span<const RowId> features = point.features();
    const absl::Span<const BFloat16> values = point.values();
    for (size_t i = 0; i < features.size(); ++i) {
      scratch.Touch(features[i].value());
      scratch.weights[features[i].value()] += ToFloat(values[i]);
    }
  }
  double squares = 0;
  for (const uint32_t column : scratch.touched) {
    squares += static_cast<double>(scratch.weights[column]) * scratch.weights[column];
  }
  const auto scale = static_cast<float>(squares > 0 ? 1 / std::sqrt(squares) : 0);
  std::string record = EncodeSparseRow(scratch, 0, scale, kCentroidDropBelow);
  scratch.Clear();
  return record;
}

}  // namespace dslide
