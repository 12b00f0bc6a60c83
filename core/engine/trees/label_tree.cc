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
  Cutter(absl::Span<const std::string> centroids, int64_t features)
      : centroids_(centroids), sums_(static_cast<size_t>(features)) {
    direction_.Resize(features);
  }

  // Orders `labels`, which ascend, so that the first half, the smaller one by at most 1, is one
  // cluster. Both halves ascend.
  void Cut(absl::Span<uint32_t> labels, uint64_t key) {
    if (labels.size() < 2) return;
    CounterRng rng(key);
    Add(labels[rng.NextBelow(labels.size())], kFirst, 1);
    Add(labels[rng.NextBelow(labels.size())], kSecond, 1);
    Turn();
    Choose(labels);
    Clear();
    for (size_t i = 0; i < labels.size(); ++i) Add(labels[i], chosen_[i], 1);
    for (int round = 1; round < kRounds; ++round) {
      Turn();
      half_of_ = chosen_;
      Choose(labels);
      for (size_t i = 0; i < labels.size() && round + 1 < kRounds; ++i) {
        if (chosen_[i] == half_of_[i]) continue;
        Add(labels[i], half_of_[i], -1);
        Add(labels[i], chosen_[i], 1);
      }
    }
    Clear();
    size_t next[2] = {0, labels.size() / 2};
    sorted_.resize(labels.size());
    for (size_t i = 0; i < labels.size(); ++i) sorted_[next[chosen_[i]]++] = labels[i];
    std::copy(sorted_.begin(), sorted_.end(), labels.begin());
  }

 private:
  using Half = uint8_t;
  static constexpr Half kFirst = 0;
  static constexpr Half kSecond = 1;
  struct Sums {
    float of[2] = {};
  };

  void Add(uint32_t label, Half half, float sign) {
    const SparseRowView centroid(centroids_[label].data());
    const absl::Span<const uint32_t> columns = centroid.columns();
    const absl::Span<const BFloat16> weights = centroid.weights();
    for (size_t i = 0; i < columns.size(); ++i) {
      direction_.Touch(columns[i]);
      sums_[columns[i]].of[half] += sign * ToFloat(weights[i]);
    }
  }

  float InverseLength(Half half) const {
    double squares = 0;
    for (const uint32_t column : direction_.touched) {
      const double sum = sums_[column].of[half];
      squares += sum * sum;
    }
    return static_cast<float>(squares > 0 ? 1 / std::sqrt(squares) : 0);
  }

  // From the middle of the second half to that of the first one.
  void Turn() {
    const float first = InverseLength(kFirst);
    const float second = InverseLength(kSecond);
    for (const uint32_t column : direction_.touched) {
      const Sums& sums = sums_[column];
      direction_.weights[column] = first * sums.of[kFirst] - second * sums.of[kSecond];
    }
  }

  void Clear() {
    for (const uint32_t column : direction_.touched) sums_[column] = Sums();
    direction_.Clear();
  }

  // In four parts, which do not wait for each other.
  float Product(uint32_t label) const {
    const SparseRowView centroid(centroids_[label].data());
    const absl::Span<const uint32_t> columns = centroid.columns();
    const absl::Span<const BFloat16> weights = centroid.weights();
    float sums[4] = {};
    size_t i = 0;
    for (; i + 4 <= columns.size(); i += 4) {
      for (size_t part = 0; part < 4; ++part) {
        sums[part] += direction_.weights[columns[i + part]] * ToFloat(weights[i + part]);
      }
    }
    for (; i < columns.size(); ++i) sums[0] += direction_.weights[columns[i]] * ToFloat(weights[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  // The half of each label: those with the larger products are in the first one, the smaller labels
  // among equals.
  void Choose(absl::Span<const uint32_t> labels) {
    order_.clear();
    for (const uint32_t label : labels) order_.emplace_back(-Product(label), label);
    ranked_ = order_;
    const auto middle = ranked_.begin() + static_cast<std::ptrdiff_t>(labels.size() / 2);
    std::nth_element(ranked_.begin(), middle, ranked_.end());
    chosen_.clear();
    for (const auto& it : order_) chosen_.push_back(it < *middle ? kFirst : kSecond);
  }

  const absl::Span<const std::string> centroids_;
  std::vector<Sums> sums_;                         // [features]: of the halves' centroids
  DenseRow direction_;                             // touched: the features of the sums
  std::vector<std::pair<float, uint32_t>> order_;  // [labels]
  std::vector<std::pair<float, uint32_t>> ranked_;
  std::vector<Half> chosen_;   // [labels]
  std::vector<Half> half_of_;  // [labels]: in the round before
  std::vector<uint32_t> sorted_;
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
