#include "client/cli/cluster/record_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/rows/record_store.h"
#include "core/protocol/component_ops.h"
#include "core/spec/tree_shape.h"
#include "core/wire/steps/step_size.h"

namespace dslide::cli {
namespace {

constexpr double kIdBytes = 4;
constexpr double kSparseRowHeader = 8;  // number of weights, bias
constexpr double kSparseWeight = 6;     // column and bf16
constexpr double kFusionBytes = 48;
// The key of a row in a checkpoint, with what RocksDB keeps beside it.
constexpr double kKeyBytes = 16;
// Points of a request, as trainers send them.
constexpr int64_t kPlannedPoints = 1024;
// Of a request beside its arrays: prefix, envelope, names.
constexpr double kRequestBytes = 100;
// An id of a row that is packed, where rows are many.
constexpr double kPackedId = 2;

double AsDouble(int64_t number) { return static_cast<double>(number); }

int64_t RoundedNumber(double number) { return std::llround(number); }

// Memory of `records` records of `bytes` in the mean.
double StoredBytes(double records, double bytes) {
  return records * AsDouble(RecordStore::BytesOf(std::max<int64_t>(1, RoundedNumber(bytes))));
}

double RecordBytes(const RowContent& rows) {
  return kSparseRowHeader + kSparseWeight * rows.weights / std::max(rows.rows, 1.0);
}

// Rows are solved from all points, so shards that hold any have all.
double PointsOnShard(const PlanInput& input) {
  const auto points = AsDouble(input.content->points);
  const bool solves = input.spec.FindRole(TableRole::kLinear) != nullptr;
  return solves ? points : std::ceil(points / AsDouble(input.shards));
}

std::optional<TreeShape> PlannedTrees(const ModelSpec& spec) {
  const TableSpec* const trees = spec.FindRole(TableRole::kLabelTrees);
  if (trees == nullptr) return std::nullopt;
  return ShapeOfTrees(spec.FindRole(TableRole::kMemory)->memory, trees->trees);
}

void PlanMemory(const PlanInput& input, TablePlan& entry) {
  const ComponentContent& content = *input.content;
  const double points = PointsOnShard(input);
  entry.records = RoundedNumber(points);
  entry.record_bytes = RoundedNumber(content.record_bytes);
  entry.bytes.weights = RoundedNumber(StoredBytes(points, content.record_bytes));
  constexpr double kAgeBytes = 8;
  entry.index_bytes =
      RoundedNumber(content.index_bytes / AsDouble(input.shards) + kAgeBytes * points);
  if (input.spec.FindRole(TableRole::kLinear) == nullptr) return;
  // The points of each label, while rows are solved.
  entry.index_bytes += RoundedNumber(points * content.labels_per_point * kIdBytes +
                                     8 * AsDouble(input.spec.num_labels()));
}

void PlanTrees(const PlanInput& input, TablePlan& entry) {
  const TreeShape shape = *PlannedTrees(input.spec);
  double bytes = 0;
  for (int64_t piece = 0; piece < shape.pieces(); ++piece) {
    bytes += StoredBytes(1, kIdBytes * AsDouble(shape.PieceSize(piece)));
  }
  entry.records = entry.rows;
  entry.record_bytes = RoundedNumber(kIdBytes * AsDouble(shape.PieceSize(0)));
  entry.bytes.weights = RoundedNumber(AsDouble(shape.trees() + 1) * bytes);
}

void PlanLinear(const PlanInput& input, const TableSpec& table, TablePlan& entry) {
  const ComponentContent& content = *input.content;
  const double share = AsDouble(entry.rows) / AsDouble(std::max<int64_t>(table.rows, 1));
  double rows = 0;
  double bytes = 0;
  double stored = 0;
  for (const RowContent* const some : {&content.centroids, &content.clusters, &content.labels}) {
    rows += some->rows;
    bytes += some->rows * RecordBytes(*some);
    stored += StoredBytes(some->rows, RecordBytes(*some));
  }
  entry.records = RoundedNumber(share * rows);
  entry.record_bytes = RoundedNumber(bytes / std::max(rows, 1.0));
  entry.bytes.weights = RoundedNumber(share * stored);
}

// The messages that bring all points to one shard.
double PointMessages(const PlanInput& input, const std::string& table) {
  const ComponentContent& content = *input.content;
  const double points = PointsOnShard(input);
  const int64_t some = std::min<int64_t>(RoundedNumber(points), kPlannedPoints);
  if (some == 0) return 0;
  AppendPointsOp op;
  op.table = table;
  op.inputs.offsets = {0};
  op.label_offsets = {0};
  // Ids spread evenly take the most bytes when they are packed.
  const auto spread = [](double count, int64_t ids, std::vector<RowId>& rows) {
    for (int64_t i = 0; i < RoundedNumber(count); ++i) {
      rows.emplace_back(static_cast<uint32_t>(AsDouble(ids) * (AsDouble(i) + 0.5) / count));
    }
  };
  for (int64_t i = 0; i < some; ++i) {
    op.numbers.push_back(static_cast<uint32_t>(i));
    spread(content.features_per_point, std::max<int64_t>(content.features, 1), op.inputs.features);
    op.inputs.offsets.push_back(static_cast<uint32_t>(op.inputs.features.size()));
    spread(content.labels_per_point, input.spec.num_labels(), op.labels);
    op.label_offsets.push_back(static_cast<uint32_t>(op.labels.size()));
  }
  op.inputs.values.assign(op.inputs.features.size(), 0.5f);
  StepCommand command;
  command.envelope.job = input.spec.name;
  command.envelope.model = input.spec.name;
  command.op = std::move(op);
  const int64_t bytes = wire::StepRequestBytes(command, {.packed = true});
  return AsDouble(bytes) * points / AsDouble(some);
}

// Rows that are scored for one sample, over all shards.
double ScoredRows(const PlanInput& input, double candidates) {
  const std::optional<TreeShape> shape = PlannedTrees(input.spec);
  if (!shape.has_value()) return 0;
  double rows = 0;
  for (const int64_t level : shape->levels()) rows += std::min(candidates, std::exp2(level));
  return candidates + AsDouble(shape->trees()) * (candidates + rows);
}

}  // namespace

void PlanRecordTable(const PlanInput& input, const TableSpec& table, TablePlan& entry) {
  switch (table.role) {
    case TableRole::kMemory:
      return PlanMemory(input, entry);
    case TableRole::kLabelTrees:
      return PlanTrees(input, entry);
    case TableRole::kLinear:
      return PlanLinear(input, table, entry);
    default:
      entry.records = 1;
      entry.record_bytes = RoundedNumber(kFusionBytes);
      entry.bytes.weights = RoundedNumber(StoredBytes(1, kFusionBytes));
  }
}

RecordPlan PlanRecordTraining(const PlanInput& input, const ShardPlan& shard,
                              const WirePlan& wire) {
  const ModelSpec& spec = input.spec;
  const ComponentContent& content = *input.content;
  const TableSpec& memory = *spec.FindRole(TableRole::kMemory);
  const auto shards = AsDouble(input.shards);
  RecordPlan plan;
  double checkpoint = 0;
  for (size_t t = 0; t < spec.tables.size(); ++t) {
    const TableSpec& table = spec.tables[t];
    const TablePlan& entry = shard.tables[t];
    if (!IsRecordRole(table.role)) {
      checkpoint += AsDouble(table.rows) * (AsDouble(entry.record_bytes) + kKeyBytes);
      continue;
    }
    // Of the fullest shard: others have hardly less.
    const double all = table.role == TableRole::kLinear
                           ? AsDouble(entry.records) * AsDouble(table.rows) / AsDouble(entry.rows)
                           : shards * AsDouble(entry.records);
    checkpoint += all * (AsDouble(entry.record_bytes) + kKeyBytes);
  }
  plan.checkpoint_bytes = RoundedNumber(checkpoint);
  plan.points_sent = RoundedNumber(shards * PointMessages(input, memory.name));
  if (const std::optional<TreeShape> shape = PlannedTrees(spec); shape.has_value()) {
    const TableSpec* const linear = spec.FindRole(TableRole::kLinear);
    const int64_t times = linear != nullptr && linear->linear.refit ? 2 : 1;
    plan.trees_sent = RoundedNumber(
        shards * AsDouble(times * shape->trees() + 1) *
        (kIdBytes * AsDouble(shape->labels()) + kRequestBytes * AsDouble(shape->pieces())));
  }
  const auto points = AsDouble(content.points);
  const double held_out = std::min(AsDouble(spec.training.validation_max_samples),
                                   spec.training.validation_fraction * points);
  const double inputs = 6 * content.features_per_point;  // id and value
  const double candidates = std::min(AsDouble(memory.memory.candidates),
                                     AsDouble(memory.memory.neighbours) * content.labels_per_point);
  const bool network = spec.FindRole(TableRole::kHead) != nullptr;
  const bool fuses = spec.FindRole(TableRole::kFusion) != nullptr;
  double queries =
      fuses ? held_out * (2 * shards * inputs + kPackedId * ScoredRows(input, candidates)) : 0;
  if (network) {
    // Each point's neighbours are looked for once; held-out ones are ranked after each epoch.
    queries += points * shards * inputs;
    const auto dim = AsDouble(spec.FindRole(TableRole::kHead)->dim);
    const double ranked = inputs + shards * 4 * dim + (kPackedId + 4) * candidates;
    const double steps = (points - held_out) / AsDouble(spec.training.batch_size);
    plan.network_sent =
        RoundedNumber(AsDouble(spec.training.max_epochs) *
                      (steps * shards * AsDouble(wire.request_bytes) + held_out * ranked));
  }
  plan.queries_sent = RoundedNumber(queries);
  return plan;
}

}  // namespace dslide::cli
