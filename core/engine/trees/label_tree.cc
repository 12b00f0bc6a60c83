#include "core/engine/trees/label_tree.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/counter_rng.h"
#include "core/engine/trees/sparse_row.h"
#include "core/spec/tree_shape.h"

namespace dslide {
namespace {

// Cuts hardly move after the fourth round.
constexpr int kRounds = 4;

// Cuts one cluster; a thread's memory.
class Cutter {
 public:
  Cutter(absl::Span<const std::string> centroids, int64_t features) : centroids_(centroids) {
    direction_.Resize(features);
    other_.Resize(features);
  }

  // Orders `labels` so that its first half, the smaller one by at most 1, is one cluster.
  void Cut(absl::Span<uint32_t> labels, uint64_t key) {
    const size_t half = labels.size() / 2;
    if (half == 0) return;
    CounterRng rng(key);
    const uint32_t first = labels[rng.NextBelow(labels.size())];
    const uint32_t second = labels[rng.NextBelow(labels.size())];
    Add(direction_, first);
    Add(other_, second);
    for (int round = 0; round < kRounds; ++round) {
      if (round > 0) {
        for (size_t i = 0; i < half; ++i) Add(direction_, labels[i]);
        for (size_t i = half; i < labels.size(); ++i) Add(other_, labels[i]);
      }
      SubtractOther();
      Sort(labels, half);
      direction_.Clear();
    }
  }

 private:
  void Add(DenseRow& sum, uint32_t label) const {
    const SparseRowView centroid(centroids_[label].data());
    const absl::Span<const uint32_t> columns = centroid.columns();
    for (size_t i = 0; i < columns.size(); ++i) {
      sum.Touch(columns[i]);
      sum.weights[columns[i]] += ToFloat(centroid.weights()[i]);
    }
  }

  static float InverseLength(const DenseRow& sum) {
    double squares = 0;
    for (const uint32_t column : sum.touched) {
      squares += static_cast<double>(sum.weights[column]) * sum.weights[column];
    }
    return static_cast<float>(squares > 0 ? 1 / std::sqrt(squares) : 0);
  }

  // direction = direction / its length - other / its length.
  void SubtractOther() {
    const float scale = InverseLength(direction_);
    const float other_scale = InverseLength(other_);
    for (const uint32_t column : direction_.touched) direction_.weights[column] *= scale;
    for (const uint32_t column : other_.touched) {
      direction_.Touch(column);
      direction_.weights[column] -= other_scale * other_.weights[column];
    }
    other_.Clear();
  }

  void Sort(absl::Span<uint32_t> labels, size_t half) {
    order_.clear();
    for (const uint32_t label : labels) {
      order_.emplace_back(-SparseRowView(centroids_[label].data()).Score(direction_.weights.data()),
                          label);
    }
    std::nth_element(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(half),
                     order_.end());
    // The order inside a half depends on the library otherwise.
    const auto by_label = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(half), by_label);
    std::sort(order_.begin() + static_cast<std::ptrdiff_t>(half), order_.end(), by_label);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = order_[i].second;
  }

  const absl::Span<const std::string> centroids_;
  DenseRow direction_;
  DenseRow other_;
  std::vector<std::pair<float, uint32_t>> order_;
};

}  // namespace

std::vector<uint32_t> BuildLabelTree(absl::Span<const std::string> centroids, int64_t features,
                                     int64_t depth, uint64_t key, Parallelism parallelism) {
  std::vector<uint32_t> labels;
  for (size_t label = 0; label < centroids.size(); ++label) {
    if (!centroids[label].empty()) labels.push_back(static_cast<uint32_t>(label));
  }
  std::vector<Cutter> cutters(static_cast<size_t>(parallelism.threads),
                              Cutter(centroids, features));
  std::vector<size_t> bounds = {0, labels.size()};  // of the clusters, one after the other
  for (int64_t level = 0; level < depth; ++level) {
    const auto clusters = static_cast<int64_t>(bounds.size()) - 1;
    const uint64_t level_key = DeriveKey(key, static_cast<uint64_t>(level));
    std::vector<size_t> halves = {0};
    for (int64_t c = 0; c < clusters; ++c) {
      const size_t begin = bounds[static_cast<size_t>(c)];
      const size_t end = bounds[static_cast<size_t>(c) + 1];
      halves.push_back(begin + (end - begin) / 2);
      halves.push_back(end);
    }
    ParallelFor(parallelism, clusters, 1, [&](int64_t c, int thread) {
      const size_t begin = bounds[static_cast<size_t>(c)];
      const size_t size = bounds[static_cast<size_t>(c) + 1] - begin;
      cutters[static_cast<size_t>(thread)].Cut(absl::MakeSpan(labels).subspan(begin, size),
                                               DeriveKey(level_key, static_cast<uint64_t>(c)));
    });
    bounds = std::move(halves);
  }
  std::vector<uint32_t> leaf_of(centroids.size(), kNoLeaf);
  for (size_t leaf = 0; leaf + 1 < bounds.size(); ++leaf) {
    for (size_t i = bounds[leaf]; i < bounds[leaf + 1]; ++i) {
      leaf_of[labels[i]] = static_cast<uint32_t>(leaf);
    }
  }
  return leaf_of;
}

}  // namespace dslide
