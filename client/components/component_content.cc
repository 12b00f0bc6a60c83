#include "client/components/component_content.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/data/read_run.h"
#include "core/engine/memory/neighbour_index.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/trees/label_tree.h"
#include "core/engine/trees/sparse_row.h"
#include "core/engine/trees/tree_rows.h"

namespace dslide {
namespace {

constexpr int64_t kPointsRead = 1024;
// Points that the solver looks at for the rows of one level: enough for a mean within some percent.
constexpr double kPointsToSolve = 2e6;
// At least so many rows of a level are solved: where points are many, clusters are large.
constexpr double kLeastRows = 16;
constexpr uint64_t kContentKey = 0x636f6e74656e74;

RowContent CountRows(const std::vector<MadeRow>& made) {
  RowContent content;
  for (const MadeRow& row : made) {
    if (row.record.empty()) continue;
    ++content.rows;
    content.weights += SparseRowView(row.record.data()).entries();
  }
  return content;
}

// The records of all points, and those that rows are solved from.
struct ReadPoints {
  std::vector<std::string> records;  // by point
  std::vector<PointView> training;   // the same; absent: held out

  //   refit : rows are solved from the held-out points as well
  absl::Status Read(const Dataset& data, const TrainingSplit& split, bool refit,
                    ValueTransform transform, absl::Span<const float> idf,
                    ComponentContent& content);
};

absl::Status ReadPoints::Read(const Dataset& data, const TrainingSplit& split, bool refit,
                              ValueTransform transform, absl::Span<const float> idf,
                              ComponentContent& content) {
  SparseBatch samples;
  for (int64_t first = 0; first < data.num_points(); first += kPointsRead) {
    RETURN_IF_ERROR(ReadRun(data, first, kPointsRead, &samples).status());
    RETURN_IF_ERROR(ApplyTransform(transform, idf, &samples));
    for (int64_t i = 0; i < samples.samples(); ++i) {
      records.push_back(
          EncodePoint(samples.FeaturesOf(i), samples.ValuesOf(i), samples.LabelsOf(i)));
      content.record_bytes += static_cast<double>(records.back().size());
    }
    content.features_per_point += static_cast<double>(samples.features.size());
    content.labels_per_point += static_cast<double>(samples.labels.size());
  }
  content.points = data.num_points();
  content.features = data.num_features();
  const auto points = static_cast<double>(std::max<int64_t>(content.points, 1));
  content.record_bytes /= points;
  content.features_per_point /= points;
  content.labels_per_point /= points;
  training.resize(records.size());
  for (size_t id = 0; id < records.size(); ++id) {
    if (!refit && split.IsValidation(static_cast<int64_t>(id))) continue;
    training[id] = PointView(records[id].data());
  }
  return absl::OkStatus();
}

// The neighbour searches of shards that own a share of the points each: lists of features that many
// shards have are there many times.
double IndexBytes(const std::vector<std::string>& records, const TableSpec& memory,
                  bool unit_length, int64_t shards) {
  NeighbourIndex index(ResolveSearch(memory.memory.search, memory.rows, unit_length));
  for (size_t id = 0; id < records.size(); id += static_cast<size_t>(shards)) {
    index.Add(static_cast<uint32_t>(id), PointView(records[id].data()));
  }
  return static_cast<double>(shards * index.memory_bytes());
}

// The rows of one level of all trees, by those of one tree that are drawn.
class LevelSample {
 public:
  LevelSample(const TreePoints& tree, const TreeShape& shape, const LinearSpec& linear,
              Parallelism parallelism)
      : tree_(tree), shape_(shape), linear_(linear), parallelism_(parallelism) {}

  // points_of_row: that a row is solved from, in the mean. Adds to `content`, and to *dropped.
  void Solve(int64_t level, double rows, double points_of_row, RowContent& content,
             double* dropped) const {
    const double share =
        std::min(1.0, std::max(kLeastRows, kPointsToSolve / std::max(points_of_row, 1.0)) / rows);
    const auto drawn = [&](RowId row) {
      return CounterRng(DeriveKey(kContentKey, row.value())).NextUniform() < share;
    };
    // All that is solved for, so that what is dropped is seen.
    const RowSolverOptions options = {
        .cost = linear_.cost, .passes = linear_.passes, .drop_below = 0};
    const double scale = static_cast<double>(shape_.trees()) / share;
    for (const MadeRow& made : tree_.Solve(0, level, 0, shape_.ParentsAt(level), drawn, options,
                                           kContentKey, parallelism_)) {
      if (made.record.empty()) continue;
      content.rows += scale;
      for (const BFloat16 weight : SparseRowView(made.record.data()).weights()) {
        const bool kept = std::abs(ToFloat(weight)) >= static_cast<float>(linear_.drop_below);
        (kept ? content.weights : *dropped) += scale;
      }
    }
  }

 private:
  const TreePoints& tree_;
  const TreeShape& shape_;
  const LinearSpec& linear_;
  const Parallelism parallelism_;
};

// Labels with points.
double CountUsed(const PointLists& by_label) {
  double used = 0;
  for (size_t label = 0; label + 1 < by_label.offsets.size(); ++label) {
    used += by_label.offsets[label + 1] > by_label.offsets[label] ? 1 : 0;
  }
  return used;
}

void CountSolved(const TrainingPoints& points, const TreeShape& shape, const LinearSpec& linear,
                 Parallelism parallelism, ComponentContent& content) {
  const auto all = [](RowId) { return true; };
  std::vector<MadeRow> made = MakeCentroids(points, shape, 0, shape.labels(), all, parallelism);
  content.centroids = CountRows(made);
  std::vector<std::string> centroids(static_cast<size_t>(shape.labels()));
  // In the order of the labels.
  for (size_t label = 0; label < made.size(); ++label) {
    centroids[label] = std::move(made[label].record);
  }
  const std::vector<uint32_t> leaves =
      BuildLabelTree(centroids, points.features(), shape.depth(), kContentKey, parallelism);
  const TreePoints tree(points, shape, leaves);
  const LevelSample sample(tree, shape, linear, parallelism);
  const auto present = static_cast<double>(points.by_label().points.size());  // with repetition
  for (int64_t level = 0; level <= shape.label_level(); ++level) {
    const bool labels = level == shape.label_level();
    const double rows = labels ? CountUsed(points.by_label())
                               : std::exp2(shape.levels()[static_cast<size_t>(level)]);
    sample.Solve(level, rows, present / static_cast<double>(shape.ParentsAt(level)),
                 labels ? content.labels : content.clusters, &content.dropped_weights);
  }
}

}  // namespace

absl::StatusOr<ComponentContent> ContentOf(const Dataset& data, const TrainingSplit& split,
                                           ValueTransform transform, absl::Span<const float> idf,
                                           const ModelSpec& spec, int64_t shards,
                                           Parallelism parallelism) {
  const ComponentTables tables(spec);
  ComponentContent content;
  content.of_data = true;
  ReadPoints points;
  RETURN_IF_ERROR(points.Read(data, split, tables.linear != nullptr && tables.linear->linear.refit,
                              transform, idf, content));
  content.index_bytes =
      IndexBytes(points.records, *tables.memory, transform != ValueTransform::kRaw, shards);
  if (!tables.shape.has_value() || tables.linear == nullptr) return content;
  const TrainingPoints training(std::move(points.training), tables.shape->labels());
  CountSolved(training, *tables.shape, tables.linear->linear, parallelism, content);
  return content;
}

double ComponentContent::kept_share() const {
  const double kept = clusters.weights + labels.weights;
  return kept + dropped_weights > 0 ? kept / (kept + dropped_weights) : 1;
}

ComponentContent GuessContent(const KnownSizes& sizes, double features_per_point,
                              double labels_per_point, const ModelSpec& spec) {
  // Fitted to what ContentOf() finds of the measured sets.
  constexpr double kGrowth = 0.75;  // of a label's distinct features with its points
  constexpr double kKept = 0.9;   // weights of a solved row, by the distinct features of its points
  constexpr double kPosting = 8;  // with room to grow
  constexpr double kIndexedPoint = 32;
  ComponentContent content;
  content.points = sizes.points;
  content.features = sizes.features;
  content.features_per_point = features_per_point;
  content.labels_per_point = labels_per_point;
  content.record_bytes = PointView::kHeaderBytes + 6 * features_per_point + 4 * labels_per_point;
  const auto points = static_cast<double>(sizes.points);
  content.index_bytes = points * (kIndexedPoint + kPosting * features_per_point);
  const ComponentTables tables(spec);
  if (!tables.shape.has_value() || tables.linear == nullptr) return content;
  const TreeShape& shape = *tables.shape;
  // A label that no point has gets no rows.
  const auto labels = std::min(static_cast<double>(sizes.labels), points * labels_per_point);
  const double most = sizes.features > 0 ? static_cast<double>(sizes.features) : HUGE_VAL;
  const auto distinct = [&](double some) {
    const double drawn = features_per_point * std::pow(std::max(some, 1.0), kGrowth);
    return sizes.features > 0 ? most * -std::expm1(-drawn / most) : drawn;
  };
  const double of_label = points * labels_per_point / std::max(labels, 1.0);
  const auto trees = static_cast<double>(shape.trees());
  const auto add = [&](double rows, double points_of_row, RowContent& content_of) {
    content_of.rows += trees * rows;
    content_of.weights += trees * rows * kKept * distinct(points_of_row);
  };
  content.centroids = {.rows = labels, .weights = labels * distinct(of_label)};
  add(labels, of_label, content.labels);
  for (const int64_t level : shape.levels()) {
    const double clusters = std::min(std::exp2(level), labels);
    add(clusters, std::min(points, of_label * labels / clusters), content.clusters);
  }
  return content;
}

}  // namespace dslide
