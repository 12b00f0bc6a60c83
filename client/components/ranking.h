// Ranked labels of samples, and their accuracy over a dataset, whatever predicts them.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/data/dataset.h"
#include "core/engine/eval/ranking_metrics.h"

namespace dslide {

// The labels predicted for one sample, best first. Fewer than k when the model knows fewer.
struct Prediction {
  std::vector<RowId> labels;
  std::vector<float> logits;
  int64_t scored_rows = 0;  // of the head, or of the memory's candidates
  bool exact = false;       // every row of the head was scored
};

// The k best labels of each sample. `points` are the samples' numbers in their dataset.
using RankLabels = std::function<absl::StatusOr<std::vector<Prediction>>(
    SparseBatch samples, absl::Span<const int64_t> points, int64_t k)>;

// Reads the first of `points`, as many as one message to a shard holds with all their features, at
// least one; returns them. Errors: those of ReadSamples().
absl::StatusOr<absl::Span<const int64_t>> ReadSendable(const Dataset& data,
                                                       absl::Span<const int64_t> points,
                                                       SparseBatch* samples);

// Accuracy over `points` of the dataset, `batch_size` at a time, at the cut-offs of `metrics`,
// which has seen no point yet; its depth is at most 1024. Points without labels do not count.
// `progress` (may be null) hears of points done. Errors: InvalidArgument when no point has a label;
// those of the dataset and of `rank`.
absl::StatusOr<std::vector<AccuracyAtK>> MeasureRanking(
    const Dataset& data, absl::Span<const int64_t> points, int64_t batch_size,
    RankingMetrics metrics, const RankLabels& rank, const std::function<void(int64_t)>& progress);

}  // namespace dslide
