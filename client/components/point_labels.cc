#include "client/components/point_labels.h"

#include "core/base/status_macros.h"
#include "core/engine/data/read_run.h"

namespace dslide {

absl::StatusOr<PointLabels> PointLabels::Read(const Dataset& data) {
  constexpr int64_t kPointsAtOnce = 1024;
  PointLabels read;
  SparseBatch samples;
  for (int64_t first = 0; first < data.num_points(); first += kPointsAtOnce) {
    RETURN_IF_ERROR(ReadRun(data, first, kPointsAtOnce, &samples).status());
    for (int64_t i = 0; i < samples.samples(); ++i) {
      const absl::Span<const RowId> labels = samples.LabelsOf(i);
      read.labels_.insert(read.labels_.end(), labels.begin(), labels.end());
      read.offsets_.push_back(read.labels_.size());
    }
  }
  return read;
}

}  // namespace dslide
