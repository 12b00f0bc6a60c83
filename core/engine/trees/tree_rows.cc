#include "core/engine/trees/tree_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "core/base/counter_rng.h"
#include "core/engine/trees/label_centroid.h"

namespace dslide {

TrainingPoints::TrainingPoints(std::vector<PointView> points, int64_t labels)
    : points_(std::move(points)), by_label_(ListByLabel(points_, labels)) {
  for (const PointView point : points_) {
    squared_lengths_.push_back(point.present() ? SquaredLength(point) : 0);
    if (point.present() && point.num_features() > 0) {
      features_ = std::max<int64_t>(features_, int64_t{point.features().back().value()} + 1);
    }
  }
}

std::vector<MadeRow> MakeCentroids(const TrainingPoints& points, const TreeShape& shape,
                                   int64_t first, int64_t last,
                                   const std::function<bool(RowId)>& wanted,
                                   Parallelism parallelism) {
  std::vector<MadeRow> rows;
  std::vector<int64_t> labels;  // [rows]
  for (int64_t label = first; label < last; ++label) {
    const RowId row = shape.CentroidRow(RowId(static_cast<uint32_t>(label)));
    if (!wanted(row)) continue;
    rows.push_back({row, {}});
    labels.push_back(label);
  }
  std::vector<DenseRow> scratch(static_cast<size_t>(parallelism.threads));
  for (DenseRow& row : scratch) row.Resize(points.features());
  ParallelFor(parallelism, static_cast<int64_t>(rows.size()), 16, [&](int64_t i, int thread) {
    MadeRow& made = rows[static_cast<size_t>(i)];
    const absl::Span<const uint32_t> mine = points.by_label().Of(labels[static_cast<size_t>(i)]);
    if (mine.empty()) return;
    made.record = CentroidRecord(points.points(), mine, scratch[static_cast<size_t>(thread)]);
  });
  return rows;
}

TreePoints::TreePoints(const TrainingPoints& points, const TreeShape& shape,
                       absl::Span<const uint32_t> leaf_of)
    : points_(points),
      shape_(shape),
      by_leaf_(ListPoints(points.points(), leaf_of, shape.leaves())),
      label_offsets_(static_cast<size_t>(shape.leaves()) + 1) {
  for (const uint32_t leaf : leaf_of) {
    if (leaf != kNoLeaf) ++label_offsets_[leaf + 1];
  }
  std::partial_sum(label_offsets_.begin(), label_offsets_.end(), label_offsets_.begin());
  labels_.resize(label_offsets_.back());
  std::vector<uint32_t> next(label_offsets_.begin(), label_offsets_.end() - 1);
  for (size_t label = 0; label < leaf_of.size(); ++label) {
    if (leaf_of[label] != kNoLeaf) labels_[next[leaf_of[label]]++] = static_cast<uint32_t>(label);
  }
}

std::vector<TreePoints::Task> TreePoints::Tasks(int64_t tree, int64_t level, int64_t first,
                                                int64_t last,
                                                const std::function<bool(RowId)>& wanted) const {
  std::vector<Task> tasks;
  for (int64_t parent = first; parent < last; ++parent) {
    if (level == shape_.label_level()) {
      for (uint32_t i = label_offsets_[static_cast<size_t>(parent)];
           i < label_offsets_[static_cast<size_t>(parent) + 1]; ++i) {
        const RowId row = shape_.LabelRow(tree, RowId(labels_[i]));
        if (wanted(row)) tasks.push_back({row, parent, labels_[i]});
      }
      continue;
    }
    const int64_t children =
        (int64_t{1} << shape_.levels()[static_cast<size_t>(level)]) / shape_.ParentsAt(level);
    for (int64_t child = parent * children; child < (parent + 1) * children; ++child) {
      const RowId row = shape_.ClusterRow(tree, level, child);
      if (wanted(row)) tasks.push_back({row, parent, child});
    }
  }
  return tasks;
}

absl::Span<const uint32_t> TreePoints::PointsOf(int64_t level, int64_t child) const {
  if (level == shape_.label_level()) return points_.by_label().Of(child);
  const int64_t depth = level < 0 ? 0 : shape_.levels()[static_cast<size_t>(level)];
  const int64_t leaves = shape_.leaves() >> depth;
  return by_leaf_.Of(child * leaves, (child + 1) * leaves);
}

void TreePoints::ListCluster(int64_t level, int64_t cluster, std::vector<uint32_t>& list) const {
  const absl::Span<const uint32_t> points = PointsOf(level, cluster);
  list.assign(points.begin(), points.end());
  // Those of one leaf ascend already.
  if (std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end()) return;
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

std::vector<MadeRow> TreePoints::Solve(int64_t tree, int64_t level, int64_t first, int64_t last,
                                       const std::function<bool(RowId)>& wanted,
                                       RowSolverOptions options, uint64_t key,
                                       Parallelism parallelism) const {
  const std::vector<Task> tasks = Tasks(tree, level, first, last, wanted);
  std::vector<size_t> bounds;  // of the tasks of each parent, one after the other
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (i == 0 || tasks[i].parent != tasks[i - 1].parent) bounds.push_back(i);
  }
  bounds.push_back(tasks.size());
  struct Thread {
    RowSolver solver;
    std::vector<uint32_t> points;  // of the parent
    std::vector<size_t> places;    // of the rows that are solved together, among the tasks
    std::vector<absl::Span<const uint32_t>> positives;  // [places]
  };
  std::vector<Thread> threads(
      static_cast<size_t>(parallelism.threads),
      Thread{.solver = RowSolver(points_.points(), points_.squared_lengths(), points_.features(),
                                 options),
             .points = {},
             .places = {},
             .positives = {}});
  std::vector<MadeRow> rows(tasks.size());
  const uint64_t level_key = DeriveKey(key, static_cast<uint64_t>(level));
  const auto solve = [&](Thread& thread) {
    if (thread.places.empty()) return;
    std::vector<std::string> records = thread.solver.Solve(thread.positives);
    for (size_t i = 0; i < records.size(); ++i) {
      rows[thread.places[i]].record = std::move(records[i]);
    }
    thread.places.clear();
    thread.positives.clear();
  };
  ParallelFor(parallelism, static_cast<int64_t>(bounds.size()) - 1, 1, [&](int64_t i, int number) {
    Thread& thread = threads[static_cast<size_t>(number)];
    const size_t begin = bounds[static_cast<size_t>(i)];
    const size_t end = bounds[static_cast<size_t>(i) + 1];
    const int64_t parent = tasks[begin].parent;
    ListCluster(level - 1, parent, thread.points);
    thread.solver.SetPoints(thread.points, DeriveKey(level_key, static_cast<uint64_t>(parent)));
    for (size_t at = begin; at < end; ++at) {
      rows[at].row = tasks[at].row;
      const absl::Span<const uint32_t> positive = PointsOf(level, tasks[at].child);
      if (positive.empty()) continue;
      thread.places.push_back(at);
      thread.positives.push_back(positive);
      if (thread.places.size() == kDualRows) solve(thread);
    }
    solve(thread);
  });
  return rows;
}

}  // namespace dslide
