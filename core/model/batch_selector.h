// Decides which rows a batch touches: active rows of each sample, and rows shared by all of them.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/stage_times.h"
#include "core/lsh/hash_index.h"
#include "core/model/batch_inversion.h"
#include "core/model/head_context.h"
#include "core/model/tail_sample.h"

namespace dslide {

// What a selection is made from.
struct SelectionPlan {
  const HashIndex* index = nullptr;  // null: every row is active for every sample
  int64_t num_rows = 0;              // of this shard
  int64_t max_active = 0;            // of this shard; with an index
  int64_t proposals = 0;             // of a sample, of this shard; 0: samples select alone
  int64_t tail_rows = 0;             // of this shard; with an index
  uint64_t tail_key = 0;             // draws the shared rows
};

// Keeps its memory from batch to batch. Not thread-safe; uses threads inside.
class BatchSelector {
 public:
  // Reads context.batch and fills rows, is_shared, pair_offsets, score_offsets, samples, is_label
  // and tail_weights. Without an index the pairs are the labels alone: the other pairs of a shared
  // row need no list. Returns the number of active pairs, unlisted ones included.
  //   times : where the time goes; may be null
  int64_t Select(const SelectionPlan& plan, Parallelism parallelism, HeadContext& context,
                 StageTimes* times = nullptr);

  // Of the last batch.
  const Selection& selection(int64_t sample) const { return selections_[sample]; }

 private:
  void SelectActive(const SelectionPlan& plan, Parallelism parallelism, const HeadBatch& batch,
                    StageTimes* times);
  void AddTimes(absl::Duration elapsed, StageTimes& times);
  void WriteKeys(const HeadBatch& batch, Parallelism parallelism);
  // Writes each pair's sample and whether it is a label.
  void SplitTags(Parallelism parallelism, HeadContext& context) const;
  void MergeRows(int64_t batch, HeadContext& context);
  void WeighTail(const SelectionPlan& plan, HeadContext& context);

  std::vector<SelectScratch> select_scratch_;  // one per thread
  CandidatePool pool_;
  std::vector<HashQuery> queries_;     // [batch]; with an index
  std::vector<Selection> selections_;  // [batch]; the labels alone without an index
  std::vector<int64_t> first_pair_;    // [batch + 1]
  BatchInversion inversion_;
  TailSample tail_sample_;
  std::vector<LocalRow> shared_rows_;
  std::vector<int32_t> active_shared_;  // [batch]: shared rows that are active for the sample
};

}  // namespace dslide
