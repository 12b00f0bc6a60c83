// Parts of a dataset, as datasets of their own: some of its points, or all without some labels.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
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

// Points keep their numbers; some have no label any more.
//
// Thread safety: immutable.
class DatasetWithoutLabels final : public Dataset {
 public:
  // left_out: whether a label is.
  DatasetWithoutLabels(std::unique_ptr<Dataset> whole, std::function<bool(RowId)> left_out)
      : whole_(std::move(whole)), left_out_(std::move(left_out)) {}

  const std::string& path() const override { return whole_->path(); }
  int64_t num_points() const override { return whole_->num_points(); }
  int64_t num_features() const override { return whole_->num_features(); }
  int64_t num_labels() const override { return whole_->num_labels(); }
  absl::Status ReadSamples(absl::Span<const int64_t> points, SparseBatch* batch) const override;
  absl::string_view FeatureName(int64_t feature) const override {
    return whole_->FeatureName(feature);
  }
  absl::string_view LabelName(int64_t label) const override { return whole_->LabelName(label); }
  absl::Span<const int64_t> DocumentFrequency() const override {
    return whole_->DocumentFrequency();
  }
  // That of the whole: trainers of one job may have begun before and after a label was left out.
  uint64_t Fingerprint() const override { return whole_->Fingerprint(); }
  const std::vector<std::string>& Notes() const override { return whole_->Notes(); }

 private:
  const std::unique_ptr<Dataset> whole_;
  const std::function<bool(RowId)> left_out_;
};

}  // namespace dslide
