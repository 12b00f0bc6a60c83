// What a model's tables of records will hold, before it is trained.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/components/component_spec.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"
#include "core/engine/data/transform.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Sparse rows of one kind, over all shards. Fractions, as they may be estimates.
struct RowContent {
  double rows = 0;
  double weights = 0;  // kept in them
};

// Over all shards; each point once, although shards that solve rows have all of them.
struct ComponentContent {
  int64_t points = 0;
  int64_t features = 0;  // of the data
  double features_per_point = 0;
  double labels_per_point = 0;
  double record_bytes = 0;  // of a point, mean
  double index_bytes = 0;   // of the neighbour search, of all shards
  RowContent centroids;
  RowContent clusters;         // of all trees, as the next
  RowContent labels;           // their own rows
  double dropped_weights = 0;  // of clusters and labels: solved for, and too small to be kept
  bool of_data = false;        // points and centroids were counted, solved rows drawn from

  // Of the weights that are solved for; 1 where there are none.
  double kept_share() const;
};

// Reads all points, builds one of the trees, and solves a part of its rows: a fraction of what the
// training of the tables costs, and as much memory as a trainer has. Equal for any number of
// threads.
//   spec : complete, with a memory
//   shards : of equal capacity, >= 1
//   split : points that are held out join the memory; rows are solved from them where the spec says
//           `refit`
//   idf : as ApplyTransform() takes it
// Errors: those of the data.
absl::StatusOr<ComponentContent> ContentOf(const Dataset& data, const TrainingSplit& split,
                                           ValueTransform transform, absl::Span<const float> idf,
                                           const ModelSpec& spec, int64_t shards,
                                           Parallelism parallelism);

// What is known without data.
struct KnownSizes {
  int64_t points = 0;
  int64_t features = 0;
  int64_t labels = 0;
};

// The same from means alone: points like those of the measured sets (docs/operate/sizing.md), for
// which it is right within a factor of two. Nothing is said of weights that are dropped.
ComponentContent GuessContent(const KnownSizes& sizes, double features_per_point,
                              double labels_per_point, const ModelSpec& spec);

}  // namespace dslide
