// One model's part on one shard: its tables, and the operations on them.
//
// Every operation first checks its whole request and then applies it; on an error nothing has
// changed. Errors: InvalidArgument with a reason word, unless a line says otherwise. Row ids are
// global here and local in the tables.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/parallel.h"
#include "core/engine/model/head_hashes.h"
#include "core/protocol/commands.h"
#include "core/protocol/explicit_rows.h"
#include "core/protocol/received_rows.h"
#include "core/protocol/row_sink.h"
#include "core/spec/model_spec.h"
#include "core/spec/retired_labels.h"
#include "core/system/stage_times.h"
#include "services/shard/state/components.h"
#include "services/shard/state/model_counters.h"
#include "services/shard/state/shard_table.h"

namespace dslide::shard {

// Bounds on single requests.
struct ModelLimits {
  int64_t max_step_reply_bytes = 4 << 20;
  int64_t max_gather_bytes = int64_t{768} << 20;
};

// Not thread-safe. Operations use up to `parallelism` threads inside, with equal bits for any
// number.
class ShardModel {
 public:
  // Checks that memory for the rows fits into `memory_bytes` before it is taken. `stages` may be
  // null and outlives the model.
  // Errors: InvalidArgument BAD_MODEL when a dense table's rows here would not fit into a message;
  // ResourceExhausted OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<ShardModel>> Create(const CreateModelCommand& command,
                                                            const ModelLimits& limits,
                                                            int64_t memory_bytes,
                                                            Parallelism parallelism,
                                                            StageTimes* stages = nullptr);

  // This model with the tables of `spec`, of which some have more rows: those are made anew, with
  // the rows that there were and first values for the others, absent ones in tables of records;
  // hash tables, and what is derived from records, are built from scratch. Tables that stay as they
  // are belong to both. This one must not be changed afterwards.
  // Errors: those of Create(), which has `memory_bytes` for the new tables beside the old.
  absl::StatusOr<std::unique_ptr<ShardModel>> Grown(const ModelSpec& spec,
                                                    int64_t memory_bytes) const;
  // What the new tables need. Errors: those of Grown().
  absl::StatusOr<int64_t> CheckGrowth(const ModelSpec& spec, int64_t memory_bytes) const;

  // From now on these labels are in no answer to TopK, and in no answer of the memory, and the rows
  // that a head had for them are absent. Those of other labels that were retired until now have
  // their first values. As ModelSpec has them.
  void SetRetiredLabels(const std::string& retired);

  const ModelSpec& spec() const { return spec_; }
  ShardId shard() const { return shard_; }
  const std::vector<SlotMap>& slot_maps() const { return slot_maps_; }
  uint64_t topology_version() const { return topology_version_; }
  void set_topology_version(uint64_t version) { topology_version_ = version; }
  std::vector<ShardTable>& tables() { return tables_; }
  const std::vector<ShardTable>& tables() const { return tables_; }
  int64_t memory_bytes() const;
  // What exact scans of heads keep beside it, see HeadTable::TopK(), and the way to get it back.
  int64_t kept_bytes() const;
  void ForgetKept() const;
  const ModelCounters& counters() const { return counters_; }
  Parallelism parallelism() const { return parallelism_; }

  // After all rows were loaded into the tables: sets the update counts, applied: [tables], and what
  // depends on the rows. hashes: [tables], the hash tables that were saved; null: made from the
  // rows. Errors: DataLoss when something does not fit; the model is then good for nothing.
  absl::Status FinishLoad(absl::Span<const Step> applied,
                          std::vector<std::optional<HeadHashes>>* hashes);

  DescribeModelReply Describe(bool with_digests) const;

  // --- Steps. `features`, `context` and `batch` are what the matching backward needs.
  absl::StatusOr<EmbedForwardReply> EmbedForward(EmbedForwardOp op, FeatureBatch& features);
  absl::StatusOr<EmbedBackwardReply> EmbedBackward(const EmbedBackwardOp& op,
                                                   const FeatureBatch& features);
  // The rows that the batch shares are a function of the model's seed and `step`.
  absl::StatusOr<HeadForwardReply> HeadForward(HeadForwardOp op, int64_t step,
                                               HeadContext& context);
  absl::StatusOr<HeadBackwardReply> HeadBackward(const HeadBackwardOp& op,
                                                 const HeadContext& context);
  absl::StatusOr<DenseGatherReply> DenseGather(const DenseGatherOp& op) const;
  absl::StatusOr<DenseScatterReply> DenseScatter(const DenseScatterOp& op);
  // --- Memory, trees, linear rows, fusion: null for a model that has none of them.
  // room: see Components::ScoreRows().
  absl::StatusOr<ReplyBody> RunComponentOp(const StepOp& op, int64_t room = 0);
  // --- Rows.
  absl::StatusOr<GatherReply> Gather(const GatherCommand& command) const;
  absl::StatusOr<ScatterReply> Scatter(const ScatterCommand& command);
  // room: see HeadTable::TopK().
  absl::StatusOr<TopKReply> TopK(TopKCommand command, int64_t room = 0) const;
  absl::StatusOr<ReadRowsReply> ReadRows(const ReadRowsCommand& command) const;  // as stored
  absl::StatusOr<LoadRowsReply> LoadRows(const LoadRowsOp& op);

 private:
  ShardModel(const CreateModelCommand& command, const ModelLimits& limits, Parallelism parallelism,
             StageTimes* stages);

  absl::Status AddTable(const TableSpec& spec, int64_t memory_bytes);
  absl::StatusOr<const SlotMap*> SlotsOf(const TableSpec& spec) const;
  void MakeComponents();         // after all tables were added
  void LeaveOutRetiredLabels();  // as well
  void LeaveOutRetiredLabels(FindNeighboursReply& reply) const;
  absl::StatusOr<const ShardTable*> Find(const std::string& name) const;
  // Whose rows are floats.
  absl::StatusOr<const ShardTable*> FindFloats(const std::string& name) const;
  absl::StatusOr<ShardTable*> FindRole(const std::string& name, TableRole role);
  absl::StatusOr<const ShardTable*> FindRole(const std::string& name, TableRole role) const;

  absl::StatusOr<GatherReply> GatherByFingerprint(const GatherCommand& command,
                                                  const ShardTable& table) const;
  Parallelism ForRows(int64_t rows) const;  // for a loop over so many rows by id
  absl::Status CheckRowShape(const ShardTable& table, int64_t rows, int64_t dim,
                             size_t biases) const;
  absl::Status CheckRows(const ShardTable& table, const RowBlock& block) const;
  absl::Status CheckReceived(const ShardTable& table, const ReceivedRows& received) const;
  absl::Status CheckMagnitude(absl::string_view field, absl::Span<const float> values) const;
  absl::StatusOr<std::vector<LocalRow>> ToLocal(const ShardTable& table,
                                                absl::Span<const RowId> rows) const;
  // Checks them, and sorts those of a sample by local row. field: for errors, before "_ids".
  absl::StatusOr<ExplicitRows<LocalRow>> ToLocal(const ShardTable& table, ExplicitRows<RowId> rows,
                                                 int64_t batch, absl::string_view field) const;
  absl::Status CheckStepReply(int64_t batch, int64_t dim) const;
  // All but fingerprints and explicit rows.
  absl::Status CheckHeadForward(const ShardTable& table, const HeadForwardOp& op,
                                int64_t batch) const;
  RowBlock ReadRows(const RowReader& reader, std::vector<RowId> rows,
                    absl::Span<const LocalRow> locals) const;
  void ReadInto(const RowReader& reader, absl::Span<const RowId> rows,
                absl::Span<const LocalRow> locals, const RowChunks& to, RowSink& sink) const;
  // To the command's sink, or into the reply.
  absl::Status Deliver(const GatherCommand& command, const ShardTable& table,
                       std::vector<RowId> rows, GatherReply& reply) const;
  // Changes checked rows as one update. row_of(i, scratch): the numbers of row i, [dim], perhaps in
  // `scratch`, [dim] on a 64-byte boundary.
  template <typename RowOf>
  void ChangeRows(ShardTable& table, ScatterMode mode, LearningRate rate,
                  absl::Span<const float> biases, absl::Span<const LocalRow> locals,
                  const RowOf& row_of);
  // Applies gradients of checked rows as one update.
  void ApplyGradients(ShardTable& table, const RowBlock& block, LearningRate rate,
                      absl::Span<const LocalRow> locals);
  void CountUpdate(const ShardTable& table);

  ModelSpec spec_;  // its retired labels change
  const ShardId shard_;
  const std::vector<SlotMap> slot_maps_;
  const ModelLimits limits_;
  const Parallelism parallelism_;
  const float bound_;
  StageTimes* const stages_;
  uint64_t topology_version_ = 0;
  std::vector<ShardTable> tables_;          // as in spec_
  std::unique_ptr<Components> components_;  // of the tables of records; null without any
  RetiredLabels retired_;
  ModelCounters counters_;
};

}  // namespace dslide::shard
