// The random rows that a batch shares to estimate what its inactive rows add to the softmax sum.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace dslide {

// Draws a step's shared rows of a head, on every shard: a function of the model, the step and the
// table's place in the model, so that clients can know them, too.
uint64_t TailKey(uint64_t model_seed, int64_t step, uint64_t table);

// A shard's part of a number of rows of the whole table: in proportion to its rows, rounded up.
int64_t ShareOfRows(int64_t count, int64_t shard_rows, int64_t table_rows);

// Draws rows without repetition. Keeps its memory; not thread-safe.
class TailSample {
 public:
  // Draws min(count, num_rows) distinct rows of [0, num_rows), each set equally likely (up to the
  // generator), as a function of the arguments alone. `rows` is overwritten, ascending.
  // Cost: O(count log count), nothing over num_rows but 1 byte a row once.
  // Source: Floyd's algorithm, in Bentley and Floyd 1987, "A sample of brilliance".
  void Draw(int64_t num_rows, int64_t count, uint64_t key, std::vector<LocalRow>& rows);

 private:
  std::vector<uint8_t> drawn_;  // [num_rows], 0 between calls
};

}  // namespace dslide
