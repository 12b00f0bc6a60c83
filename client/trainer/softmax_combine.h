// One loss out of the shards' parts of it.

#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/row_slices.h"
#include "core/protocol/head_answers.h"

namespace dslide {

struct CombinedLoss {
  // [B]: log of the softmax sum over all shards; empty for sigmoid, which needs none.
  std::vector<float> log_partitions;
  double loss_sum = 0;  // over the samples
};

// Adds the shards' answers up in shard order, in f64.
//   parts   : by shard
//   labels  : by shard, as they were sent; values: weights of their targets, or empty: all 1
//   targets : [B] of each of a sample's labels, without those weights
// Softmax: log Z = m + log(sum over shards of s * exp(max - m)), m the largest max; the loss of a
// sample is sum over its labels of target * (log Z - logit). Sigmoid: sum over shards of s minus
// the sum over its labels of target * logit. Where labels have weights, log_partitions are log Z
// less the log of the sum of the sample's targets: the gradient is then of that sum. Errors:
// Internal when a shard's arrays have the wrong sizes; InvalidArgument naming the sample when its
// loss is not finite: the training has diverged.
absl::StatusOr<CombinedLoss> CombineLoss(HeadLoss loss,
                                         absl::Span<const HeadForwardOutput* const> parts,
                                         absl::Span<const RaggedSlice> labels,
                                         absl::Span<const float> targets);

// How many of the exact best rows the hash tables had found.
struct RecallCount {
  int64_t samples = 0;
  int64_t top_1_found = 0;
  int64_t top_10 = 0;  // rows asked for: 10 per sample, fewer in tiny heads
  int64_t top_10_found = 0;

  void Add(const RecallCount& other);
};

// Merges the shards' probes of each sample into its exact global top 10 (by falling logit, ties by
// smaller id) and counts those that were found.
RecallCount CountRecall(absl::Span<const HeadForwardOutput* const> parts);

}  // namespace dslide
