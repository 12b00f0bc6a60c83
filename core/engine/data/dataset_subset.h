// Some of the points of a dataset, as a dataset of their own.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/data/dataset.h"

namespace dslide {

// Features and labels are those of the whole. Costs 8 bytes a point.
//
// Thread safety: immutable.
class DatasetSubset final : public Dataset {
 public:
  // Point i is whole's point points[i]. `whole` outlives this. Requires at least one point, each in
  // [0, whole.num_points()).
  DatasetSubset(const Dataset& whole, std::vector<int64_t> points);

  const std::string& path() const override { return whole_.path(); }
  int64_t num_points() const override { return static_cast<int64_t>(points_.size()); }
  int64_t num_features() const override { return whole_.num_features(); }
  int64_t num_labels() const override { return whole_.num_labels(); }
  absl::Status ReadSamples(absl::Span<const int64_t> points, SparseBatch* batch) const override;
  absl::string_view FeatureName(int64_t feature) const override {
    return whole_.FeatureName(feature);
  }
  absl::string_view LabelName(int64_t label) const override { return whole_.LabelName(label); }
  // Nobody counted: whole's counts are of other points.
  absl::Span<const int64_t> DocumentFrequency() const override { return {}; }
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  const Dataset& whole_;
  const std::vector<int64_t> points_;
  uint64_t fingerprint_;
};

}  // namespace dslide
