#include "client/components/ranking.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel_factory.h"
#include "core/base/status_macros.h"

namespace dslide {

absl::StatusOr<absl::Span<const int64_t>> ReadSendable(const Dataset& data,
                                                       absl::Span<const int64_t> points,
                                                       SparseBatch* samples) {
  constexpr size_t kFeatureBytes = 8;  // id and value
  for (;;) {
    RETURN_IF_ERROR(data.ReadSamples(points, samples));
    const bool fits = samples->features.size() * kFeatureBytes <= size_t{kMaxMessageBytes};
    if (fits || points.size() == 1) return points;
    points = points.first(points.size() / 2);
  }
}

absl::StatusOr<std::vector<AccuracyAtK>> MeasureRanking(
    const Dataset& data, absl::Span<const int64_t> points, int64_t batch_size,
    RankingMetrics metrics, const RankLabels& rank, const std::function<void(int64_t)>& progress) {
  for (size_t first = 0; first < points.size();) {
    SparseBatch samples;
    ASSIGN_OR_RETURN(
        const absl::Span<const int64_t> part,
        ReadSendable(data, points.subspan(first, static_cast<size_t>(batch_size)), &samples));
    std::vector<std::vector<RowId>> labels;
    for (int64_t s = 0; s < samples.samples(); ++s) {
      const absl::Span<const RowId> mine = samples.LabelsOf(s);
      labels.emplace_back(mine.begin(), mine.end());
    }
    ASSIGN_OR_RETURN(const std::vector<Prediction> predictions,
                     rank(std::move(samples), part, metrics.depth()));
    for (size_t s = 0; s < labels.size(); ++s) metrics.Add(predictions[s].labels, labels[s]);
    first += part.size();
    if (progress) progress(static_cast<int64_t>(first));
  }
  if (metrics.points() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path(), ": no point has a label, so there is no accuracy to measure"));
  }
  return metrics.Accuracy();
}

}  // namespace dslide
