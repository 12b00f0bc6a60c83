// Points like texts: most words are rare, a few are everywhere, and texts of one topic share words.

#pragma once

#include <cstdint>

#include "core/engine/data/sparse_batch.h"

namespace dslide::bench {

inline constexpr int64_t kWords = 200000;

// Appends points [first, first + count) of an endless sequence: about 30 words of two of 20,000
// topics and of the language, each drawn by Zipf's law. Values are counts; there are no labels.
void AppendWordPoints(int64_t first, int64_t count, SparseBatch& batch);

}  // namespace dslide::bench
