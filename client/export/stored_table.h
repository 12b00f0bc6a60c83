// The rows of one table over all shards, as they are stored: read in the order of their ids, and
// loaded.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"
#include "core/partition/slot_map.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Whether every shard has every row of the table. A memory is whole on a shard that solves rows
// from it; otherwise a point is with the owner of its slot alone.
bool IsOnEveryShard(const ModelSpec& spec, const TableSpec& table);

struct VisitedRow {
  RowId row;
  uint32_t size = 0;         // of the record
  absl::string_view record;  // "" where only sizes are read
  Step applied;              // of the table on the shard that has the row
};

// Calls `visit` for every row that is present, by ascending id. Holds one answer of each shard, a
// few MB, however large the table is. Rows that are changed meanwhile come as they are when they
// are read. Errors: those of the shards and of `visit`.
absl::Status VisitRows(ClusterClient& cluster, const ModelSpec& spec, const TableSpec& table,
                       bool sizes_only, absl::FunctionRef<absl::Status(const VisitedRow&)> visit);

// Loads rows into one table of a fresh model. Not thread-safe.
class RowLoader {
 public:
  // streams: by ordinal; they and next_step, which numbers the operations, outlive this.
  // applied_steps: at least the last step of each row.
  static absl::StatusOr<RowLoader> Create(ClusterClient& cluster, const ModelSpec& spec,
                                          const TableSpec& table, int64_t applied_steps,
                                          const std::vector<std::unique_ptr<ShardStream>>& streams,
                                          int64_t* next_step);

  // Rows come by ascending id. Errors: those of the shards, maybe about earlier rows.
  absl::Status Add(RowId row, absl::string_view record);
  // Sends the rest and waits until all shards have everything.
  absl::Status Finish();

 private:
  struct Queued {
    size_t shard;
    std::shared_ptr<PendingStep> pending;
  };

  RowLoader(std::string table, SlotMap slots, bool everywhere, int64_t applied_steps,
            const std::vector<std::unique_ptr<ShardStream>>& streams, int64_t* next_step);
  absl::Status Send(size_t shard, bool finish);
  absl::Status AwaitBelow(size_t most);

  std::string table_;
  SlotMap slots_;
  bool everywhere_;
  int64_t applied_steps_;
  const std::vector<std::unique_ptr<ShardStream>>* streams_;
  int64_t* next_step_;
  std::vector<StoredRowBlock> blocks_;  // [shards] not sent yet
  std::deque<Queued> queued_;
};

}  // namespace dslide
