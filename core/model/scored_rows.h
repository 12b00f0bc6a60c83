// The best rows of each query of a batch.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace dslide {

struct ScoredRows {
  std::vector<RowId> rows;    // [batch, k], best first; kNoRow where there are fewer
  std::vector<float> logits;  // [batch, k]; -inf where there are fewer
  int64_t scored_rows = 0;    // rows scored, summed over the queries
  bool exact = true;          // every row was scored
};

}  // namespace dslide
