// The parts of a model that are kept as records, on one shard: memory, label trees, linear rows,
// fusion; what is derived from them, and the operations on them.
//
// Points lie on every shard that was sent them, point number p in row p % rows of the memory, where
// it takes the place of a smaller number. Neighbours are looked for among those whose slots this
// shard owns; rows are solved from all. A point that was removed leaves no trace but this: the
// records that were solved from it, until they are solved again.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/parallel.h"
#include "core/engine/memory/neighbour_index.h"
#include "core/engine/memory/point_ages.h"
#include "core/engine/rows/record_store.h"
#include "core/engine/trees/table_scorer.h"
#include "core/engine/trees/tree_rows.h"
#include "core/partition/slot_map.h"
#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"
#include "core/spec/tree_shape.h"

namespace dslide::shard {

// The tables of a model that are records. Null where there is none.
struct ComponentTables {
  const ModelSpec* spec = nullptr;
  RecordStore* memory = nullptr;
  RecordStore* trees = nullptr;
  RecordStore* linear = nullptr;
  RecordStore* fusion = nullptr;
  const SlotMap* memory_slots = nullptr;
  ShardId shard = ShardId(-1);
};

// Not thread-safe. Operations use up to `parallelism` threads inside, with equal bits for any
// number. Errors of operations: InvalidArgument with a reason word; nothing has changed then.
class Components {
 public:
  // The tables and what they point to outlive it.
  Components(ComponentTables tables, Parallelism parallelism);

  // Derives everything anew, after records were loaded. Errors: DataLoss naming the table and row
  // whose record is not one.
  absl::Status Rebuild();

  // Puts all points of one memory into an empty one with more rows: of two that fall into one row
  // there, the larger number stays, as it would have.
  static void PlacePoints(const RecordStore& from, RecordStore& to);

  absl::StatusOr<AppendPointsReply> AppendPoints(const AppendPointsOp& op);
  // What the points of `op` would add to memory_bytes(), at most.
  static int64_t BytesOf(const AppendPointsOp& op);
  absl::StatusOr<PutRecordReply> PutRecord(const PutRecordOp& op);
  // rows: of op, as the table `op.table` has them.
  absl::Status LoadRows(const LoadRowsOp& op, absl::Span<const LocalRow> rows);
  // As BytesOf() above.
  static int64_t BytesOf(const LoadRowsOp& op);
  absl::StatusOr<GetRecordReply> GetRecord(const GetRecordOp& op) const;
  absl::StatusOr<SolveRowsReply> SolveRows(const SolveRowsOp& op);
  absl::StatusOr<FindNeighboursReply> FindNeighbours(const FindNeighboursOp& op,
                                                     int64_t max_reply_bytes) const;
  // room: bytes that may be kept besides, to be faster; changes no answer.
  absl::StatusOr<ScoreRowsReply> ScoreRows(const ScoreRowsOp& op, int64_t room = 0);

  // Of what is derived, without what is kept.
  int64_t memory_bytes() const;
  int64_t kept_bytes() const { return scorer_.kept_bytes(); }
  void ForgetKept() { scorer_.Forget(); }

 private:
  absl::StatusOr<RecordStore*> Find(const std::string& name, TableRole role) const;
  // A table whose records are put and got as wholes, if it has the row.
  absl::StatusOr<RecordStore*> FindWhole(const std::string& name, RowId row) const;
  RecordStore* StoreOf(TableRole role) const;
  absl::Status CheckPiece(const PutRecordOp& op) const;
  // Whether a row of the table may have the record.
  absl::Status CheckLoaded(const TableSpec& table, RowId row, const std::string& record) const;
  PointView PointAt(uint32_t row) const;
  // The records of the points to add, [batch]; "" of those that are too old.
  absl::StatusOr<std::vector<std::string>> EncodeAppended(const AppendPointsOp& op) const;
  // Puts a record into its row, unless that has a point of its number or a larger one.
  void AddPoint(const std::string& record);
  void RemovePoint(uint32_t row);
  void RemoveOlderThan(uint32_t time);
  int64_t NextNumber();
  absl::Status IndexMemory();
  // Derives from the point of a row what is kept up to date.
  void Index(uint32_t row);
  void IndexAges();
  absl::StatusOr<std::vector<uint32_t>> LeavesOf(int64_t tree) const;
  // All points, with what SolveRows() needs of them.
  const TrainingPoints& Training();
  absl::StatusOr<const TreePoints*> TreeOf(int64_t tree);
  absl::Status CheckSolve(const SolveRowsOp& op) const;
  // The rows of the operation, in its order.
  absl::StatusOr<std::vector<LocalRow>> FindLinear(const ScoreRowsOp& op) const;

  const ComponentTables tables_;
  const Parallelism parallelism_;
  std::optional<TreeShape> shape_;
  NeighbourIndex neighbours_;
  PointAges ages_;
  int64_t next_number_ = 0;  // above those of all points; -1: to be found again
  mutable std::vector<NeighbourIndex::Scratch> scratch_;  // by thread
  TableScorer scorer_;
  // Made when rows are solved; dropped when points or trees change.
  std::unique_ptr<TrainingPoints> training_;
  std::vector<uint32_t> leaves_;  // of the tree below
  std::unique_ptr<TreePoints> tree_;
  int64_t tree_number_ = -1;
  int64_t columns_ = 0;  // above every feature of the points and linear rows
};

}  // namespace dslide::shard
