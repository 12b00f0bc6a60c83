// The settings of tables of records. Data only; model_spec.h has the rest of a model.

#pragma once

#include <cstdint>

namespace dslide {

// How the nearest of a model's training points are looked for. neighbour_index.h says what each
// finds, docs/understand/learning.md what it costs.
enum class NeighbourSearch {
  kAuto,    // exact or by impact, by the number of points
  kExact,   // the k nearest
  kImpact,  // the nearest of those that share large products with the query
  kHashed,  // the nearest of those that share features which hashing chose for both
};

// What kAuto stands for in a memory with room for so many points. It depends on the whole model's
// memory, so all shards agree, and it does not change while points arrive.
//   unit_length : whether points are scaled to length 1; only an exact search can do without
constexpr NeighbourSearch ResolveSearch(NeighbourSearch search, int64_t rows, bool unit_length) {
  // From here on exact searches are an eighth of a training, and those by impact rank held-out
  // points as well (docs/understand/learning.md).
  constexpr int64_t kManyPoints = 1 << 14;
  if (search != NeighbourSearch::kAuto) return search;
  return unit_length && rows >= kManyPoints ? NeighbourSearch::kImpact : NeighbourSearch::kExact;
}

// Prediction from training points that are like the sample.
struct MemorySpec {
  int64_t neighbours = 100;       // points that vote on a sample's labels; [1, 1000]
  double similarity_power = 2.0;  // a vote is the similarity to this power; [0, 8]
  int64_t candidates = 200;       // labels of a sample that are scored at most; [1, 4096]
  int64_t labels = 0;             // above every label; 0: from the data. At most kMaxTableRows
  // The labels for which the model was made, where it has more by now: the rows of those stay where
  // they are. 0: `labels`. Below labels.
  int64_t base_labels = 0;
  NeighbourSearch search = NeighbourSearch::kAuto;
  friend bool operator==(const MemorySpec&, const MemorySpec&) = default;
};

// The labels for which a model was made.
inline int64_t BaseLabels(const MemorySpec& memory) {
  return memory.base_labels > 0 ? memory.base_labels : memory.labels;
}

// Trees whose leaves are the labels: a search goes down them to the labels that it scores.
struct LabelTreesSpec {
  int64_t trees = 4;         // [1, 16]
  int64_t leaf_labels = 50;  // labels below one lowest cluster at most; [2, 4096]
  int64_t level_step = 4;    // binary levels between two that have clusters; [1, 16]
  // Binary levels of a tree; [0, 30]. -1: the fewest that leaf_labels allows, from the data.
  int64_t depth = -1;
  friend bool operator==(const LabelTreesSpec&, const LabelTreesSpec&) = default;
};

// Rows that are solved for, one by one, instead of learned at a rate.
struct LinearSpec {
  double cost = 1.0;        // of an error over the margin, against the weights' length; (0, 1e6]
  int64_t passes = 5;       // over a row's points; [1, 1000]
  double drop_below = 0.1;  // weights smaller in magnitude are dropped; [0, 1e3]
  // Trees and rows are made again with the held-out points, once the fusion is fitted to them.
  bool refit = false;
  friend bool operator==(const LinearSpec&, const LinearSpec&) = default;
};

}  // namespace dslide
