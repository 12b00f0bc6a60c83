// Has the shards solve all rows of a linear table, a piece at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/components/component_shards.h"
#include "core/spec/tree_shape.h"

namespace dslide {

// The operations are queued; ComponentShards::Finish() waits for them. Errors: those of the shards.
absl::Status SolveCentroids(const TreeShape& shape, ComponentShards& shards);

// The same, and waits. Returns how many points carry each label, [labels].
absl::StatusOr<std::vector<uint32_t>> SolveAndCountCentroids(const TreeShape& shape,
                                                             ComponentShards& shards);

// Clusters and labels of one tree. check: asked between the operations; an error ends it.
absl::Status SolveTree(const TreeShape& shape, int64_t tree, ComponentShards& shards,
                       const std::function<absl::Status()>& check);

}  // namespace dslide
