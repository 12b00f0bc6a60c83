// Decides which rows a batch touches: active rows of each sample, and rows shared by all of them.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/lsh/hash_index.h"
#include "core/engine/model/batch_inversion.h"
#include "core/engine/model/given_rows.h"
#include "core/engine/model/head_context.h"
#include "core/engine/model/tail_sample.h"
#include "core/system/stage_times.h"

namespace dslide {

// What a selection is made from.
struct SelectionPlan {
  const HashIndex* index = nullptr;  // null: no row is found by hashing
  bool every_row = false;            // each is active for every sample; without an index
  int64_t num_rows = 0;              // of this shard
  int64_t max_active = 0;            // of this shard; with an index
  int64_t proposals = 0;             // of a sample, of this shard; 0: samples select alone
  int64_t drawn = 0;                 // of max_active; without proposals
  int64_t tail_rows = 0;             // of this shard; unless every row is active
  uint64_t tail_key = 0;             // draws the shared rows and the candidates
  // [num_rows], not 0 for rows that are not there, or empty: they are shared by none, and the
  // others stand for the rows that are there.
  absl::Span<const uint8_t> absent = {};
  int64_t num_absent = 0;
};

// Keeps its memory from batch to batch. Not thread-safe; uses threads inside.
class BatchSelector {
 public:
  // Reads context.batch and fills rows, is_shared, pair_offsets, score_offsets, samples, is_label,
  // pair_weights and tail_weights. When every row is active the pairs are the labels alone: the
  // other pairs of a shared row need no list. Returns the number of active pairs, unlisted ones
  // included, left out ones not.
  //   times : where the time goes; may be null
  int64_t Select(const SelectionPlan& plan, Parallelism parallelism, HeadContext& context,
                 StageTimes* times = nullptr);

  // Of the last batch: [active pairs], what is added to their logits; empty: nothing.
  absl::Span<const float> logit_offsets() const { return logit_offsets_; }
  // Of the last batch, which `batch` is: whether a row of the sample counts as a candidate that was
  // found (RecallTop::found).
  bool Found(const HeadBatch& batch, int64_t sample, LocalRow row) const;

 private:
  void SelectActive(const SelectionPlan& plan, Parallelism parallelism, const HeadBatch& batch,
                    StageTimes* times);
  void SelectHashed(const SelectionPlan& plan, Parallelism parallelism, const HeadBatch& batch);
  void AddTimes(absl::Duration elapsed, StageTimes& times);
  void DrawShared(const SelectionPlan& plan);
  // Whether the tail would count the row for a sample that has left it out: then it becomes a pair
  // of weight 0.
  bool IsShared(LocalRow row) const { return is_shared_[row.value()] != 0; }
  void CountPairs(int64_t batch);
  void WriteKeys(int64_t batch, Parallelism parallelism);
  // Writes each pair's sample, its weight, and whether it is a label.
  void SplitTags(Parallelism parallelism, HeadContext& context) const;
  void MergeRows(int64_t batch, HeadContext& context);
  // Writes the logit offsets and weights of explicit rows.
  void TakeExplicit(HeadContext& context);
  void WeighTail(const SelectionPlan& plan, HeadContext& context);

  std::vector<SelectScratch> select_scratch_;  // one per thread
  CandidatePool pool_;
  GivenRows given_;
  std::vector<HashQuery> queries_;     // [batch]; with an index
  std::vector<Selection> selections_;  // [batch]; what is given alone without an index
  bool every_row_ = false;             // of the plan
  bool hashed_ = false;                // the plan had an index
  bool weighted_ = false;              // some pairs may have another weight than 1
  std::vector<int64_t> first_pair_;    // [batch + 1]
  int64_t left_out_pairs_ = 0;
  BatchInversion inversion_;
  TailSample tail_sample_;
  std::vector<LocalRow> shared_rows_;
  std::vector<uint8_t> is_shared_;      // [num_rows]; filled where pairs are weighted
  std::vector<uint32_t> next_given_;    // [batch]
  std::vector<float> logit_offsets_;    // [pairs] or empty
  std::vector<int32_t> active_shared_;  // [batch]: shared rows that are pairs of the sample
  std::vector<double> represented_;     // [batch]: rows that are there for which the pairs stand
};

}  // namespace dslide
