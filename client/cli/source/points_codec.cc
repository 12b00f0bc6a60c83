#include "client/cli/source/points_codec.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

constexpr int64_t kVarintBytes = 5;  // of 32 bits

using Numbers = google::protobuf::RepeatedField<uint32_t>;

int64_t Sum(const Numbers& counts) {
  int64_t sum = 0;
  for (const uint32_t count : counts) sum += count;
  return sum;
}

// Ids of each point strictly ascend and are below `limit`.
absl::Status CheckIds(const char* what, const Numbers& counts, const Numbers& ids, int64_t limit) {
  if (Sum(counts) != ids.size()) {
    return absl::InternalError(
        absl::StrCat(ids.size(), " ", what, " where the counts say ", Sum(counts)));
  }
  int at = 0;
  for (const uint32_t count : counts) {
    for (uint32_t i = 0; i < count; ++i, ++at) {
      if (ids[at] >= limit || (i > 0 && ids[at] <= ids[at - 1])) {
        return absl::InternalError(absl::StrCat(
            what, "[", at, "] is ", ids[at], ", must ascend within a point and be below ", limit));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const v1::SparsePoints& points, int64_t max_points, int64_t num_features,
                   int64_t num_labels) {
  const int count = points.feature_counts_size();
  if (count < 1 || count > max_points || points.label_counts_size() != count) {
    return absl::InternalError(absl::StrCat(count, " points with features and ",
                                            points.label_counts_size(), " with labels, where 1 to ",
                                            max_points, " may come"));
  }
  RETURN_IF_ERROR(CheckIds("features", points.feature_counts(), points.features(), num_features));
  RETURN_IF_ERROR(CheckIds("labels", points.label_counts(), points.labels(), num_labels));
  if (points.values_size() != 0 && points.values_size() != points.features_size()) {
    return absl::InternalError(
        absl::StrCat(points.values_size(), " values for ", points.features_size(), " features"));
  }
  if (!std::all_of(points.values().begin(), points.values().end(),
                   [](float value) { return std::isfinite(value); })) {
    return absl::InternalError("a value that is no finite number");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t MaxWireBytes(const SparseBatch& batch, int64_t sample) {
  const auto features = static_cast<int64_t>(batch.FeaturesOf(sample).size());
  const auto labels = static_cast<int64_t>(batch.LabelsOf(sample).size());
  constexpr auto kValueBytes = static_cast<int64_t>(sizeof(float));
  return (2 + features + labels) * kVarintBytes + features * kValueBytes;
}

v1::SparsePoints ToWire(const SparseBatch& batch) {
  v1::SparsePoints points;
  points.mutable_features()->Reserve(static_cast<int>(batch.features.size()));
  for (int64_t s = 0; s < batch.samples(); ++s) {
    points.add_feature_counts(static_cast<uint32_t>(batch.FeaturesOf(s).size()));
    points.add_label_counts(static_cast<uint32_t>(batch.LabelsOf(s).size()));
  }
  for (const RowId feature : batch.features) points.add_features(feature.value());
  for (const RowId label : batch.labels) points.add_labels(label.value());
  const bool all_one = std::all_of(batch.values.begin(), batch.values.end(),
                                   [](float value) { return value == 1.0f; });
  if (!all_one) points.mutable_values()->Add(batch.values.begin(), batch.values.end());
  return points;
}

absl::Status AppendPoints(const v1::SparsePoints& points, int64_t max_points, int64_t num_features,
                          int64_t num_labels, SparseBatch* batch) {
  RETURN_IF_ERROR(Check(points, max_points, num_features, num_labels));
  int feature = 0;
  int label = 0;
  for (int p = 0; p < points.feature_counts_size(); ++p) {
    for (uint32_t i = 0; i < points.feature_counts(p); ++i, ++feature) {
      batch->features.emplace_back(points.features(feature));
      batch->values.push_back(points.values().empty() ? 1.0f : points.values(feature));
    }
    for (uint32_t i = 0; i < points.label_counts(p); ++i, ++label) {
      batch->labels.emplace_back(points.labels(label));
    }
    batch->FinishSample();
  }
  return absl::OkStatus();
}

}  // namespace dslide::cli
