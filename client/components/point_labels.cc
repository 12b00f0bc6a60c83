#include "client/components/point_labels.h"

#include <algorithm>
#include <numeric>

#include "core/base/status_macros.h"

namespace dslide {

absl::StatusOr<PointLabels> PointLabels::Read(const Dataset& data) {
  constexpr int64_t kPointsAtOnce = 1024;
  PointLabels read;
  SparseBatch samples;
  for (int64_t first = 0; first < data.num_points(); first += kPointsAtOnce) {
    std::vector<int64_t> points(
        static_cast<size_t>(std::min(kPointsAtOnce, data.num_points() - first)));
    std::iota(points.begin(), points.end(), first);
    RETURN_IF_ERROR(data.ReadSamples(points, &samples));
    for (int64_t i = 0; i < samples.samples(); ++i) {
      const absl::Span<const RowId> labels = samples.LabelsOf(i);
      read.labels_.insert(read.labels_.end(), labels.begin(), labels.end());
      read.offsets_.push_back(read.labels_.size());
    }
  }
  return read;
}

}  // namespace dslide
