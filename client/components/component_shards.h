// The operations on a model's tables of records, over all shards.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/components/component_spec.h"
#include "client/components/point_labels.h"
#include "client/cpp/step_channel.h"
#include "core/engine/data/sparse_batch.h"
#include "core/engine/memory/neighbour_votes.h"
#include "core/partition/slot_map.h"
#include "core/protocol/commands.h"

namespace dslide {

// The nearest training points of each sample of a batch, over all shards.
class FoundNeighbours {
 public:
  // replies: of the shards, one each. k: neighbours kept of a sample. known: labels that replies
  // leave out where they may; null: none. Errors: Internal for a point that `known` lacks.
  static absl::StatusOr<FoundNeighbours> Merge(std::vector<FindNeighboursReply> replies, int64_t k,
                                               const PointLabels* known);

  // Nearest first. Valid as long as this, and `known`.
  absl::Span<const LabelledNeighbour> Of(int64_t sample) const {
    return by_sample_[static_cast<size_t>(sample)];
  }

 private:
  std::vector<FindNeighboursReply> replies_;
  std::vector<std::vector<LabelledNeighbour>> by_sample_;
};

// How old points are, and which are too old.
struct PointTimes {
  absl::Span<const uint32_t> of_points;  // [samples]; empty: all 0
  uint32_t expire_before = 0;            // older ones are removed, and not added
};

// Thread safety: one thread. Errors are those of the shards, naming the operation.
class ComponentShards {
 public:
  // Samples of one question: the answers fit into messages many times over.
  static constexpr int64_t kQueriesAtOnce = 64;

  // Channels by ordinal; `next_step` numbers the operations and is advanced. Everything passed in
  // outlives it.
  ComponentShards(const ComponentTables& tables, std::vector<StepChannel*> shards,
                  const SlotMap& memory_slots, const SlotMap* linear_slots, int64_t* next_step);

  // Goes on with other channels; what was queued is forgotten.
  void Rebind(std::vector<StepChannel*> shards);

  // Queues points for every shard that needs them. numbers: [samples], in [0, 2^32), strictly
  // ascending.
  absl::Status AppendPoints(absl::Span<const int64_t> numbers, const SparseBatch& points,
                            const PointTimes& times = {});
  // The points of the memory, and 1 + the largest number among them, over all shards.
  absl::StatusOr<AppendPointsReply> CountPoints();
  // Queues a record for every shard.
  absl::Status PutRecord(const TableSpec& table, RowId row, const std::string& record);
  // Queues the records of a number for each label: the leaves of tree number `tree`, or behind the
  // last tree the labels' points. numbers: [labels].
  absl::Status PutNumbers(int64_t tree, absl::Span<const uint32_t> numbers);
  // What PutNumbers() has put; kNoLeaf, or no points, for labels that the model has grown by since.
  // Errors: FailedPrecondition when nothing was.
  absl::StatusOr<std::vector<uint32_t>> GetNumbers(int64_t tree);
  // Queues rows to be made by every shard that holds them.
  absl::Status SolveRows(int64_t tree, int64_t level, int64_t first, int64_t count);
  // Makes the centroids of some labels. Returns how many points carry each, [count].
  absl::StatusOr<std::vector<uint32_t>> SolveAndCountCentroids(int64_t first, int64_t count);
  // Waits for everything that was queued.
  absl::Status Finish();

  // "" for a record that was never put.
  absl::StatusOr<std::string> GetRecord(const TableSpec& table, RowId row);
  // left_out: [batch] points that are no neighbours of the samples; empty: none.
  // known: labels of points that need not travel; null: none.
  absl::StatusOr<FoundNeighbours> FindNeighbours(const SparseInputs& inputs, int64_t k,
                                                 const std::vector<uint32_t>& left_out = {},
                                                 const PointLabels* known = nullptr);
  // The scores of rows, [rows]. row_offsets: [batch + 1]; rows: strictly ascending within a sample.
  absl::StatusOr<std::vector<float>> ScoreRows(const SparseInputs& inputs,
                                               absl::Span<const uint32_t> row_offsets,
                                               absl::Span<const RowId> rows);

  int64_t entries() const { return entries_; }  // of the rows that were made

 private:
  struct Queued {
    size_t shard;
    std::shared_ptr<PendingStep> pending;
  };

  // The points that the shard needs.
  AppendPointsOp SelectPoints(size_t shard, absl::Span<const int64_t> numbers,
                              const SparseBatch& points, const PointTimes& times) const;
  std::shared_ptr<PendingStep> Send(size_t shard, StepOp op);
  // Waits until fewer than `most` queued operations have no answer.
  absl::Status AwaitBelow(size_t most);
  absl::Status Annotate(size_t shard, const absl::Status& status) const;
  template <typename T>
  absl::StatusOr<T> Take(size_t shard, PendingStep& pending) const;

  const ComponentTables& tables_;
  std::vector<StepChannel*> shards_;
  const SlotMap& memory_slots_;
  const SlotMap* const linear_slots_;
  int64_t* const next_step_;
  std::deque<Queued> queued_;
  int64_t entries_ = 0;
};

// The same samples as inputs of an operation.
SparseInputs InputsOf(const SparseBatch& samples);

}  // namespace dslide
