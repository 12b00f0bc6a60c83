// New points for a model's memory, after it was trained.
//
// Points get numbers in the order of their data. Point number p lies in row p % rows of the memory,
// where it takes the place of an older one: the memory keeps the newest `rows` points, and where
// times are given, only those that are young enough. Whatever is sent may be sent again under the
// same numbers.

#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/components/component_shards.h"
#include "client/components/component_spec.h"
#include "client/cpp/cluster_client.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/transform.h"

namespace dslide {

// What a stream works with. Everything must outlive it.
struct PointStreamParts {
  ClusterClient& cluster;
  const ModelSpec& spec;
  const ComponentTables& tables;
  ComponentShards& shards;
  ValueTransform transform;
  absl::Span<const float> idf;  // [features], for tf-idf only
  Parallelism parallelism;
  // Asked between operations; true ends them. May be null.
  std::function<bool()> stop_requested;
};

// Whether a memory of `spec` would take all points of the data, the first under the number `first`.
// Reads all of them and sends nothing. transform, idf, stop_requested: as above.
// Errors: InvalidArgument when numbers or labels do not fit, or naming a point whose values, as
// they would be sent, are beyond the model's bound; those of the data; Cancelled.
absl::Status CheckPoints(const Dataset& data, int64_t first, const ModelSpec& spec,
                         ValueTransform transform, absl::Span<const float> idf,
                         const std::function<bool()>& stop_requested);

// Thread safety: one thread. Errors: those of the data and the shards; Cancelled when somebody
// asked to stop.
class PointStream {
 public:
  explicit PointStream(PointStreamParts parts) : parts_(std::move(parts)) {}

  // The points of the memory, and the number that the next one should have.
  absl::StatusOr<AppendPointsReply> Count() { return parts_.shards.CountPoints(); }

  // Sends all points of the data, the first under the number `first`.
  // Errors: InvalidArgument when numbers or labels do not fit, before anything was sent.
  absl::Status Append(const Dataset& data, int64_t first, const PointTimes& times);

  // For a model with trees: makes the centroids again from the points that the memory has now, and
  // counts how many there are, in all and of each label.
  absl::Status Refresh();

  // For a model with trees, after Refresh(): solves their rows again. Trees keep their shape,
  // unless the model has grown by labels that have points and hang in no tree yet: then all trees
  // are built anew. The fusion keeps its weights. Returns the entries of the rows.
  absl::StatusOr<int64_t> SolveTrees();

 private:
  absl::Status Check() const;  // Cancelled when somebody asked to stop
  absl::Status RefreshFusion();
  // Whether a label that the model has grown by has points, and no leaf in some tree.
  absl::StatusOr<bool> LacksLabels();

  const PointStreamParts parts_;
  std::vector<uint32_t> label_points_;  // of Refresh()
};

}  // namespace dslide
