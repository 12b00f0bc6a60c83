// How the nearest of a model's training points are looked for. neighbour_index.h says what each
// finds, docs/understand/learning.md what it costs.

#pragma once

#include <cstdint>

namespace dslide {

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
  // Below, an exact search takes less than a third of a millisecond (docs/understand/learning.md),
  // no more than the scores of a query's candidates take.
  constexpr int64_t kManyPoints = 200000;
  if (search != NeighbourSearch::kAuto) return search;
  return unit_length && rows >= kManyPoints ? NeighbourSearch::kImpact : NeighbourSearch::kExact;
}

}  // namespace dslide
