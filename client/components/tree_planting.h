// Label trees as a whole: built from the labels' centroids, and kept by the shards.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/components/component_shards.h"
#include "client/components/component_spec.h"
#include "client/cpp/cluster_client.h"
#include "core/base/parallel.h"

namespace dslide {

// Builds all trees and queues their leaves for the shards. Returns them, [trees][labels]: a pure
// function of centroids, seed and shape.
//   centroids : by label, records of sparse_row.h; "" for a label without points
//   features : above every column of the centroids
absl::StatusOr<std::vector<std::vector<uint32_t>>> PlantTrees(
    absl::Span<const std::string> centroids, int64_t features, uint64_t seed,
    const TreeShape& shape, ComponentShards& shards, Parallelism parallelism);

// The centroids that the shards have, by label. Errors: those of the shards.
absl::StatusOr<std::vector<std::string>> ReadCentroids(ClusterClient& cluster,
                                                       const std::string& model,
                                                       const ComponentTables& tables);

// Above every column of them.
int64_t FeaturesOf(absl::Span<const std::string> centroids);

}  // namespace dslide
