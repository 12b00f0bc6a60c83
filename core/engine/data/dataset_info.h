// Figures that describe a dataset, and the accuracy of the simplest possible model on it.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"

namespace dslide {

// Precision at 1, 3 and 5: of the first k predictions, the part that are labels of the point,
// averaged over the points with labels, as in ranking_metrics.h.
struct PrecisionAtK {
  double at_1 = 0;
  double at_3 = 0;
  double at_5 = 0;
};

struct DatasetInfo {
  int64_t points = 0;
  int64_t features = 0;
  int64_t labels = 0;
  double features_per_point = 0;  // mean
  double labels_per_point = 0;    // mean, points without labels included
  int64_t max_features_per_point = 0;
  int64_t max_labels_per_point = 0;
  int64_t points_without_labels = 0;
  int64_t points_without_features = 0;
  int64_t features_used = 0;  // features that occur at all
  int64_t labels_used = 0;    // labels that occur at all
};

// Reads the whole set. Errors: those of ReadSamples().
absl::StatusOr<DatasetInfo> DescribeDataset(const Dataset& data, Parallelism parallelism);

// Reads until it finds a label. Errors: InvalidArgument when no point has one; those of
// ReadSamples().
absl::Status CheckHasLabels(const Dataset& data);

// Means over points from all parts of the set.
struct PointSizes {
  double features = 0;
  double labels = 0;
};
// Reads at most about 2,000 points. Errors: those of ReadSamples().
absl::StatusOr<PointSizes> SamplePointSizes(const Dataset& data);

// How often each label occurs.
struct LabelCounts {
  int64_t points = 0;             // of the set
  std::vector<int64_t> of_label;  // [labels] points with the label
};

// Reads the whole set, unless data.LabelFrequency() knows. Errors: those of ReadSamples().
absl::StatusOr<LabelCounts> CountLabels(const Dataset& data, Parallelism parallelism);

// The baseline: always predict `train`'s five most frequent labels, ties by id, scored on `test`.
// Errors: InvalidArgument when the sets do not fit (CheckSameShape()); those of ReadSamples().
absl::StatusOr<PrecisionAtK> MostFrequentBaseline(const Dataset& train, const Dataset& test,
                                                  Parallelism parallelism);
// The same where the training part was counted before. Errors: InvalidArgument when `test` has
// another number of labels; those of ReadSamples().
absl::StatusOr<PrecisionAtK> MostFrequentBaseline(const LabelCounts& train, const Dataset& test,
                                                  Parallelism parallelism);

}  // namespace dslide
