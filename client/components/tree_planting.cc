#include "client/components/tree_planting.h"

#include <algorithm>
#include <utility>

#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/trees/label_tree.h"
#include "core/engine/trees/sparse_row.h"

namespace dslide {
namespace {

// Part of the model's seed that trees are cut with.
constexpr uint64_t kTreeKey = 0x7472656573;

struct RowRange {
  int64_t first = 0;
  int64_t end = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<uint32_t>>> PlantTrees(
    absl::Span<const std::string> centroids, int64_t features, uint64_t seed,
    const TreeShape& shape, ComponentShards& shards, Parallelism parallelism) {
  std::vector<std::vector<uint32_t>> leaves;
  const uint64_t key = DeriveKey(seed, kTreeKey);
  for (int64_t tree = 0; tree < shape.trees(); ++tree) {
    leaves.push_back(BuildLabelTree(centroids, features, shape.depth(),
                                    DeriveKey(key, static_cast<uint64_t>(tree)), parallelism));
    RETURN_IF_ERROR(shards.PutNumbers(tree, leaves.back()));
  }
  return leaves;
}

absl::StatusOr<std::vector<std::string>> ReadCentroids(ClusterClient& cluster,
                                                       const std::string& model,
                                                       const ComponentTables& tables) {
  const TreeShape& shape = *tables.shape;
  std::vector<std::string> centroids(static_cast<size_t>(shape.labels()));
  // Those of later labels have the rows of their trees between them.
  const int64_t later = shape.base_labels();
  std::vector<RowRange> ranges = {{.first = 0, .end = later}};
  std::vector<int64_t> label_of(static_cast<size_t>(shape.num_rows()), -1);
  for (int64_t label = 0; label < shape.labels(); ++label) {
    label_of[shape.CentroidRow(RowId(static_cast<uint32_t>(label))).value()] = label;
  }
  if (shape.labels() > later) {
    const int64_t first = shape.CentroidRow(RowId(static_cast<uint32_t>(later))).value();
    ranges.push_back({.first = first, .end = shape.num_rows()});
  }
  for (int64_t number = 0; number < cluster.num_shards(); ++number) {
    ShardClient& shard = cluster.shard(ShardId(static_cast<int32_t>(number)));
    for (const RowRange& range : ranges) {
      ReadRowsCommand command;
      command.model = model;
      command.table = tables.linear->name;
      command.end = range.end;
      for (command.first = range.first; command.first < range.end;) {
        ASSIGN_OR_RETURN(const ReadRowsReply reply, shard.ReadRows(command));
        size_t offset = 0;
        for (size_t i = 0; i < reply.block.rows.size(); ++i) {
          const int64_t label = label_of[reply.block.rows[i].value()];
          if (label >= 0) {
            centroids[static_cast<size_t>(label)] =
                reply.block.records.substr(offset, reply.block.sizes[i]);
          }
          offset += reply.block.sizes[i];
        }
        command.first = reply.next;
      }
    }
  }
  return centroids;
}

int64_t FeaturesOf(absl::Span<const std::string> centroids) {
  int64_t features = 0;
  for (const std::string& record : centroids) {
    if (record.empty()) continue;
    const absl::Span<const uint32_t> columns = SparseRowView(record.data()).columns();
    if (!columns.empty()) features = std::max(features, int64_t{columns.back()} + 1);
  }
  return features;
}

}  // namespace dslide
