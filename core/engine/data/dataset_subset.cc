#include "core/engine/data/dataset_subset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"

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

}  // namespace dslide
