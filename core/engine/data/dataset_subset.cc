#include "core/engine/data/dataset_subset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"

namespace dslide {

DatasetSubset::DatasetSubset(const Dataset& whole, std::vector<int64_t> points)
    : whole_(whole), points_(std::move(points)), fingerprint_(whole.Fingerprint()) {
  for (const int64_t point : points_) {
    fingerprint_ = CounterBits(fingerprint_, static_cast<uint64_t>(point));
  }
}

absl::Status DatasetSubset::ReadSamples(absl::Span<const int64_t> points,
                                        SparseBatch* batch) const {
  batch->Clear();
  std::vector<int64_t> of_whole;
  of_whole.reserve(points.size());
  for (const int64_t point : points) {
    if (point < 0 || point >= num_points()) {
      return absl::OutOfRangeError(absl::StrCat("point ", point, " is not one of the ",
                                                num_points(), " chosen points of ", path()));
    }
    of_whole.push_back(points_[static_cast<size_t>(point)]);
  }
  return whole_.ReadSamples(of_whole, batch);
}

absl::Status DatasetWithoutLabels::ReadSamples(absl::Span<const int64_t> points,
                                               SparseBatch* batch) const {
  RETURN_IF_ERROR(whole_->ReadSamples(points, batch));
  size_t kept = 0;
  int64_t begin = 0;
  for (size_t sample = 0; sample + 1 < batch->label_offsets.size(); ++sample) {
    const int64_t end = batch->label_offsets[sample + 1];
    for (int64_t i = begin; i < end; ++i) {
      const RowId label = batch->labels[static_cast<size_t>(i)];
      if (!left_out_(label)) batch->labels[kept++] = label;
    }
    begin = end;
    batch->label_offsets[sample + 1] = static_cast<int64_t>(kept);
  }
  batch->labels.resize(kept, RowId(0));
  return absl::OkStatus();
}

}  // namespace dslide
