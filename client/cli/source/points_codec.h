// SparseBatch <-> v1.SparsePoints.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/engine/data/sparse_batch.h"
#include "dslide/v1/data.pb.h"

namespace dslide::cli {

// Bytes that a sample takes at most in a v1.SparsePoints.
int64_t MaxWireBytes(const SparseBatch& batch, int64_t sample);

v1::SparsePoints ToWire(const SparseBatch& batch);

// Appends the points to *batch. Errors: Internal naming what is wrong, with *batch as it was:
// counts that do not add up, more than max_points, ids out of range or not ascending, values that
// are not finite.
absl::Status AppendPoints(const v1::SparsePoints& points, int64_t max_points, int64_t num_features,
                          int64_t num_labels, SparseBatch* batch);

}  // namespace dslide::cli
