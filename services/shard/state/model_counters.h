// What operations on a model did, for metrics.

#pragma once

#include <cstdint>

namespace dslide::shard {

// Only ever grows.
struct ModelCounters {
  int64_t rejected_rows = 0;  // updates refused by the magnitude bound after the arithmetic
  int64_t active_pairs = 0;
  int64_t head_samples = 0;
  int64_t head_distinct_rows = 0;
  int64_t embed_distinct_rows = 0;
  int64_t recall_top1_found = 0, recall_top1_wanted = 0;
  int64_t recall_top10_found = 0, recall_top10_wanted = 0;
  // What a dense all-reduce of the updated tables' rows here would have moved, one way.
  int64_t dense_equivalent_bytes = 0;

  ModelCounters& operator+=(const ModelCounters& other) {
    rejected_rows += other.rejected_rows;
    active_pairs += other.active_pairs;
    head_samples += other.head_samples;
    head_distinct_rows += other.head_distinct_rows;
    embed_distinct_rows += other.embed_distinct_rows;
    recall_top1_found += other.recall_top1_found;
    recall_top1_wanted += other.recall_top1_wanted;
    recall_top10_found += other.recall_top10_found;
    recall_top10_wanted += other.recall_top10_wanted;
    dense_equivalent_bytes += other.dense_equivalent_bytes;
    return *this;
  }
};

}  // namespace dslide::shard
