// The models that are trained when nobody gives a spec.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/data/dataset_info.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// What the choice depends on.
struct DataShape {
  int64_t points = 0;  // >= 1
  int64_t features = 0;
  int64_t labels = 0;
  int64_t used_labels = 0;     // that some point carries
  double points_of_label = 0;  // mean over used labels
  // The mean over all labels of all points of how many points carry that label: a label that a
  // point carries has so many. 0: unknown, and taken for enough.
  double popularity = 0;
  double features_per_point = 0;  // mean; 0: unknown
};

// Errors: those of ReadSamples().
absl::StatusOr<DataShape> ShapeOf(const Dataset& data, const LabelCounts& counts);

// For points with features: a memory of them, label trees and their fusion, and a small network
// beside them where there are enough points to learn from, of all and of a label
// (docs/understand/learning.md). Sizes are left to the data, but for the length of the network's
// training.
ModelSpec DefaultComponents(const DataShape& shape);

// The same, with or without the network whatever the data says.
ModelSpec ComponentsFor(const DataShape& shape, bool network);

// Whether a network of that width, its optimizer's state included, is worth its bytes; dim 0: of
// the width that ComponentsFor() gives it.
bool NetworkFits(const DataShape& shape, int64_t dim = 0);

// Gives a spec's network `length` times the passes that it has by default over so many points, with
// schedules that end when they do.
void SetNetworkLength(int64_t points, double length, ModelSpec& spec);

// What DefaultComponents() chose and why, in a sentence or two.
std::string ExplainComponents(const DataShape& shape, const ModelSpec& spec);

// For words, or where flags name a network: an embedding of 128 with a bias row, Adam at 0.001, and
// a head that hashes when it has more rows than kExactHeadRows.
inline constexpr int64_t kExactHeadRows = 4096;
ModelSpec DefaultNetwork(int64_t num_labels);

}  // namespace dslide::cli
