// What a head answers: to a forward pass, and for the best rows of queries.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace dslide {

// Exact best rows of one sample.
struct RecallTop {
  uint32_t sample = 0;
  std::vector<RowId> rows;  // at most 10, by falling logit
  std::vector<float> logits;
  // 1: a candidate that hashing found, or in a batch without fingerprints an explicit row.
  std::vector<uint8_t> found;
};

struct HeadForwardOutput {
  std::vector<float> max_logits;  // [batch]; -inf without rows (softmax), 0 (sigmoid)
  // [batch]; sum of weight * exp(logit - max); sigmoid: of weight * log(1 + exp(logit)).
  std::vector<float> exp_sums;
  std::vector<float> label_logits;  // [labels.size()]
  int64_t active_pairs = 0;         // over all samples, tail rows not counted
  int64_t distinct_rows = 0;
  std::vector<RecallTop> recall;
};

// The best rows of each query of a batch.
struct ScoredRows {
  std::vector<RowId> rows;              // [batch, k], best first; kNoRow where there are fewer
  std::vector<float> logits;            // [batch, k]; -inf where there are fewer
  int64_t scored_rows = 0;              // rows scored, summed over the queries
  std::vector<uint32_t> by_query = {};  // [batch] rows scored for each; or empty: not known
  bool exact = true;                    // every row was scored
};

}  // namespace dslide
