// A head's batch, and what Forward() leaves for Backward().

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/protocol/explicit_rows.h"
#include "core/protocol/head_answers.h"

namespace dslide {

struct HeadBatch {
  std::vector<float> hidden;  // [batch, dim]
  // [batch, num_tables]; ignored when every row is active; empty with explicit rows: only they are
  // touched, with the labels and the tail.
  std::vector<uint32_t> fingerprints;
  std::vector<uint32_t> label_offsets;  // [batch + 1]
  std::vector<LocalRow> labels;         // held here; strictly ascending within a sample
  // [batch]; the target of each of the sample's labels: 1 / number of labels over all shards for
  // softmax (0 for a sample without labels, which then has no loss), 1 for sigmoid.
  std::vector<float> label_targets;
  // [labels.size()], by which the targets of labels are multiplied, or empty: all 1. Softmax only.
  std::vector<float> label_weights = {};
  std::vector<uint32_t> recall_samples;       // positions whose exact top 10 is wanted
  ExplicitRows<LocalRow> explicit_rows = {};  // held here; for Forward() alone

  int64_t batch() const { return static_cast<int64_t>(label_offsets.size()) - 1; }
  absl::Span<const LocalRow> LabelsOf(int64_t sample) const {
    return absl::MakeConstSpan(labels).subspan(label_offsets[sample],
                                               label_offsets[sample + 1] - label_offsets[sample]);
  }
};

// The distinct rows of a batch and their scores, row by row.
//
// An *active pair* is a row and a sample in whose active set it is. A row is *shared* when it was
// drawn for the tail (or when every row is active): then all samples have a score of it, which
// counts with the tail weight where it is not active. Other rows have one score per active pair.
// A shared row that a sample has left out is a pair of weight 0, so that the tail does not count
// it. Reuse contexts: filling one anew keeps its memory, and fresh memory is slow.
struct HeadContext {
  HeadBatch batch;
  std::vector<LocalRow> rows;           // distinct, ascending
  std::vector<uint8_t> is_shared;       // [rows]
  std::vector<uint32_t> pair_offsets;   // [rows + 1] into the active pairs
  std::vector<uint64_t> score_offsets;  // [rows + 1] into the scores
  std::vector<uint32_t> samples;        // [active pairs], ascending within a row
  std::vector<uint8_t> is_label;        // [active pairs]: the row is a label of the sample
  std::vector<float> pair_weights;      // [active pairs], or empty: all 1
  std::vector<float> tail_weights;      // [batch]
  // [score_offsets.back()]. Softmax: exp(logit - max of the sample); sigmoid: the logit. Offsets
  // are part of a logit.
  std::vector<float> scores;
  std::vector<float> max_logits;  // [batch]

  // Counts against the context budget.
  int64_t memory_bytes() const;

  // By which the k-th active pair counts.
  float PairWeight(uint32_t k) const { return pair_weights.empty() ? 1.0f : pair_weights[k]; }

  // The scores and the active pairs of the i-th row.
  absl::Span<const uint32_t> SamplesOf(int64_t i) const {
    return absl::MakeConstSpan(samples).subspan(pair_offsets[i],
                                                pair_offsets[i + 1] - pair_offsets[i]);
  }
  absl::Span<float> ScoresOf(int64_t i) {
    return absl::MakeSpan(scores).subspan(score_offsets[i],
                                          score_offsets[i + 1] - score_offsets[i]);
  }
  absl::Span<const float> ScoresOf(int64_t i) const {
    return absl::MakeConstSpan(scores).subspan(score_offsets[i],
                                               score_offsets[i + 1] - score_offsets[i]);
  }
};

}  // namespace dslide
