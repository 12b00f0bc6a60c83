#include "core/engine/trees/sample_scorer.h"

#include <algorithm>
#include <cstddef>

namespace dslide {
namespace {

// A feature's search costs about as much as a scan of so many entries.
constexpr size_t kScanPerFeature = 14;

}  // namespace

void SampleScorer::Set(absl::Span<const RowId> features, absl::Span<const float> values,
                       int64_t columns) {
  for (const uint32_t feature : features_) dense_[feature] = 0;
  dense_.resize(std::max(dense_.size(), static_cast<size_t>(columns)));
  features_.clear();
  for (const RowId feature : features) features_.push_back(feature.value());
  values_.assign(values.begin(), values.end());
  for (size_t i = 0; i < features_.size(); ++i) dense_[features_[i]] = values_[i];
  places_.resize(features_.size());
}

float SampleScorer::Score(SparseRowView row) {
  return row.entries() <= kScanPerFeature * features_.size() ? row.Score(dense_.data())
                                                             : ScoreBySearch(row);
}

// Halves the columns for all features at once, by arithmetic: no search waits for another one's
// memory, and nothing has to be predicted. That took half the time of one search after the other.
float SampleScorer::ScoreBySearch(SparseRowView row) {
  const absl::Span<const uint32_t> columns = row.columns();
  const absl::Span<const BFloat16> weights = row.weights();
  const uint32_t* const features = features_.data();
  uint32_t* const places = places_.data();
  const size_t count = features_.size();
  std::fill_n(places, count, 0);
  // The last column not above the feature, or the first, lies in [place, place + left).
  for (auto left = static_cast<uint32_t>(columns.size()); left > 1;) {
    const uint32_t half = left / 2;
    for (size_t f = 0; f < count; ++f) {
      const uint32_t not_above = columns[places[f] + half] <= features[f] ? 1 : 0;
      places[f] += half & (0 - not_above);
    }
    left -= half;
  }
  float sum = 0;
  for (size_t f = 0; f < count; ++f) {
    if (columns[places[f]] != features[f]) continue;
    sum += values_[f] * ToFloat(weights[places[f]]);
  }
  return row.bias() + sum;
}

}  // namespace dslide
