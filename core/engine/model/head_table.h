// The wide output layer of one shard: selection by hashing, forward, backward, update, scoring.
//
// The batch is inverted: (row, sample) pairs sorted by row, so that each distinct row is loaded
// once for all of its samples and updated once per step.
//
// Tail-corrected softmax: besides a sample's active rows, R random rows shared by the whole batch
// enter its sum; those that are not active for the sample count with the weight
// (rows - active rows) / (shared rows not active), so that the sum estimates the full softmax and
// is exact when every row is shared. R is a shard's part of HeadSpec::tail_rows; 0 gives plain
// SLIDE. Where active rows have weights, those they stand for count as active.
//
// Explicit rows are active beside those that hashing finds, or instead of them where a batch has no
// fingerprints.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/lsh/hash_index.h"
#include "core/engine/model/head_context.h"
#include "core/engine/model/head_hashes.h"
#include "core/engine/model/top_k.h"
#include "core/engine/rows/row_store.h"
#include "core/system/stage_times.h"

namespace dslide {

// Thread safety: const functions are concurrent with each other; the caller excludes the rest.
// Every function gives equal bits for any number of threads.
class HeadTable {
 public:
  // `spec.role` is kHead, `spec.rows` the rows of the whole table. max_active and tail_rows are cut
  // to this shard's share of the rows (rounded up). Builds the hash tables.
  // Errors: those of RowStore::Create and HashIndex::Create.
  static absl::StatusOr<std::unique_ptr<HeadTable>> Create(const TableSpec& spec,
                                                           uint64_t model_seed, ShardRows rows,
                                                           Parallelism parallelism);

  ~HeadTable();

  // From now on the time of each stage is added to `times`, which outlives the table; null ends it.
  void MeasureStages(StageTimes* times) { times_ = times; }

  RowStore& store() { return *store_; }
  const RowStore& store() const { return *store_; }
  const HashIndex* index() const { return index_.get(); }  // null when every row is active
  Step applied() const { return applied_; }
  // After rows were loaded: sets the update count and builds the hash tables from scratch. Tables
  // with equal rows and counts are equal from then on, whatever they were before.
  void ResetAfterLoad(Step applied, Parallelism parallelism);

  // Whether rows are selected by hashing; otherwise SaveHashes() has nothing to save.
  bool has_hashes() const { return index_ != nullptr && store_->num_rows() > 0; }
  // Finishes a build of the hash tables that is under way, before its time. A part of the command
  // stream: copies that must agree settle at the same place.
  void SettleHashes();
  // Whether tables are being made that do not serve yet: settling would let them serve early.
  bool building() const;
  // Whether settling now, or when `steps` more have been applied, waits for tables to be sorted.
  bool SettlingWaits(int64_t steps) const;
  // Requires has_hashes(), and that they are settled.
  HeadHashes SaveHashes() const;
  // After rows were loaded: as ResetAfterLoad(), but with the hash tables that were saved, and the
  // changed rows that they do not know of. Requires has_hashes(). Parts of a whole state that fit
  // together go on as the saved table would.
  // Errors: InvalidArgument when they have another shape; the table is then good for nothing.
  absl::Status RestoreAfterLoad(Step applied, HeadHashes hashes, Parallelism parallelism);

  // Selects, computes logits, and fills `context` for one Backward(). What `context` held before is
  // overwritten; its memory is reused. The batch's shapes are checked by the caller.
  //   tail_key : draws the shared rows; a function of the command, equal on a replay.
  void Forward(HeadBatch batch, uint64_t tail_key, Parallelism parallelism, HeadContext& context,
               HeadForwardOutput& output);

  // One update, of the loss scale * sum over samples of cross-entropy: each distinct row of the
  // context once. Then, when the update count is a multiple of rebuild_every_steps, the changed
  // rows are hashed and new hash tables are sorted; large ones in the background, to come into
  // force a fixed number of updates later.
  //   log_partitions : [batch] of the softmax over all shards; ignored for sigmoid.
  //   hidden_gradient : [batch, dim], overwritten with this shard's part.
  // Returns the number of rows refused by the magnitude bound (left unchanged). For the learning
  // rate see RowStore::BeginUpdate().
  int64_t Backward(const HeadContext& context, absl::Span<const float> log_partitions, float scale,
                   float magnitude_bound, Parallelism parallelism,
                   absl::Span<float> hidden_gradient,
                   std::optional<double> learning_rate = std::nullopt);

  // Best k rows by logit for each query, of averaged rows where the table keeps averages (hashing
  // finds them as training has them). hidden: [batch, dim]. `fingerprints` empty, or no index:
  // exact scan. Otherwise the rows that Select() gives, with room for at least k from this shard;
  // with a budget of its own, seven eighths of it or more the nearest of the longest rows, and the
  // others what Select() gives.
  //   budget : rows to score for each query, over all shards, cut to this shard's share; 0: as
  //            training selects.
  //   room   : bytes that exact scans may take to keep the rows in another form between two
  //            updates; it changes no answer.
  ScoredRows TopK(absl::Span<const float> hidden, int64_t batch, int64_t k,
                  absl::Span<const uint32_t> fingerprints, Parallelism parallelism,
                  int64_t budget = 0, int64_t room = 0) const;
  // What that takes now, which is not in memory_bytes().
  int64_t kept_bytes() const;
  // Gives it back. Safe beside TopK().
  void ForgetKept() const;

  // Rows that are absent from now on (RowStore::SetAbsent) and found by nothing: [num_rows], or
  // empty. In the softmax of steps they are rows of zeros.
  void LeaveOut(std::vector<uint8_t> rows, Parallelism parallelism);
  LeftOutRows left_out() const { return left_out_; }

  // Rows each query would select without labels: sorted unique local rows, compressed by sample,
  // none that is left out.
  //   max_active : over all shards, cut to this shard's share; 0: the table's own.
  // Without an index every such row is selected for every query: [batch, num_rows] in all.
  using Candidates = ExplicitRows<LocalRow>;
  Candidates Select(absl::Span<const uint32_t> fingerprints, int64_t batch, int64_t max_active,
                    Parallelism parallelism) const;

  // Marks rows changed from outside (scatter), so that the next build hashes them again.
  void MarkDirty(absl::Span<const LocalRow> rows);
  // Counts an update made through Scatter and rebuilds on schedule.
  void AdvanceStep(Parallelism parallelism);

  int64_t memory_bytes() const;

 private:
  HeadTable(const TableSpec& spec, std::unique_ptr<RowStore> store);
  struct Scratch;
  struct Longest;
  struct Kept;

  // This shard's part of a number of rows of the whole table.
  int64_t ShareOf(int64_t rows) const;
  // The same for a budget of this shard, each query's rows in an order of no meaning.
  Candidates SelectWithin(absl::Span<const uint32_t> fingerprints, int64_t batch, int64_t budget,
                          Parallelism parallelism) const;
  // What is near to a query among the longest rows, and what is in its buckets.
  Candidates Search(const RowReader& reader, absl::Span<const float> hidden,
                    absl::Span<const uint32_t> fingerprints, int64_t batch, int64_t budget,
                    Parallelism parallelism) const;
  // The best of that. budget: of this shard.
  ScoredRows SearchTopK(const RowReader& reader, absl::Span<const float> hidden, int64_t batch,
                        int64_t k, absl::Span<const uint32_t> fingerprints, int64_t budget,
                        Parallelism parallelism) const;
  void FindRecall(const HeadBatch& batch, Parallelism parallelism, HeadForwardOutput& output);
  void StartBuild(Parallelism parallelism);
  // Updates from the start of a build until its tables serve; 0: at once.
  int64_t StepsUntilVisible() const;

  const HeadSpec spec_;
  std::unique_ptr<RowStore> store_;
  std::unique_ptr<HashIndex> index_;
  int64_t max_active_ = 0;  // this shard's part; 0: all rows
  int64_t tail_rows_ = 0;   // this shard's part
  int64_t proposals_ = 0;   // of a sample, this shard's part
  int64_t drawn_ = 0;       // of max_active_, this shard's part
  Step applied_ = Step(0);
  std::vector<uint8_t> dirty_;     // [num_rows]
  std::vector<uint8_t> left_out_;  // [num_rows], or empty
  int64_t num_left_out_ = 0;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Longest> longest_;  // of predictions; has a lock of its own
  std::unique_ptr<Kept> kept_;        // likewise
  StageTimes* times_ = nullptr;
};

}  // namespace dslide
