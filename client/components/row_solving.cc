#include "client/components/row_solving.h"

#include <algorithm>

#include "core/base/status_macros.h"

namespace dslide {
namespace {

// Rows that a shard makes in one operation: well under a second, so that others need not wait.
constexpr int64_t kRowsAtOnce = 8192;

}  // namespace

absl::Status SolveCentroids(const TreeShape& shape, ComponentShards& shards) {
  for (int64_t first = 0; first < shape.labels(); first += kRowsAtOnce) {
    RETURN_IF_ERROR(shards.SolveRows(-1, 0, first, std::min(kRowsAtOnce, shape.labels() - first)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> SolveAndCountCentroids(const TreeShape& shape,
                                                             ComponentShards& shards) {
  std::vector<uint32_t> points;
  for (int64_t first = 0; first < shape.labels(); first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, shape.labels() - first);
    ASSIGN_OR_RETURN(const std::vector<uint32_t> some, shards.SolveAndCountCentroids(first, count));
    points.insert(points.end(), some.begin(), some.end());
  }
  return points;
}

absl::Status SolveTree(const TreeShape& shape, int64_t tree, ComponentShards& shards,
                       const std::function<absl::Status()>& check) {
  for (int64_t level = 0; level <= shape.label_level(); ++level) {
    const int64_t parents = shape.ParentsAt(level);
    const int64_t rows = level == shape.label_level()
                             ? shape.labels()
                             : int64_t{1} << shape.levels()[static_cast<size_t>(level)];
    const int64_t at_once =
        std::max<int64_t>(1, parents * kRowsAtOnce / std::max<int64_t>(rows, 1));
    for (int64_t first = 0; first < parents; first += at_once) {
      RETURN_IF_ERROR(check());
      RETURN_IF_ERROR(shards.SolveRows(tree, level, first, std::min(at_once, parents - first)));
    }
  }
  return absl::OkStatus();
}

}  // namespace dslide
