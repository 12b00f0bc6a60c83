// Models whose tables get more rows.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/engine/rows/table_bytes.h"
#include "services/shard/state/refusal.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {
namespace {

// Rows that a thread takes at once.
constexpr int64_t kRowsPerCopyGrain = 1024;

// Rows of the same table: the local numbers differ, the global ones stay. No two threads have one
// row.
absl::Status CopyRows(const StoredRows& from, StoredRows& to, float magnitude_bound,
                      Parallelism parallelism) {
  std::vector<absl::Status> failed(static_cast<size_t>(std::max(1, parallelism.threads)));
  ParallelFor(parallelism, from.rows().num_rows(), kRowsPerCopyGrain, [&](int64_t i, int thread) {
    const LocalRow row(static_cast<uint32_t>(i));
    if (from.RecordSpan(row).empty()) return;
    const absl::Status set = to.SetRecord(to.rows().ToLocal(from.rows().ToGlobal(row)),
                                          from.RecordSpan(row), magnitude_bound);
    if (!set.ok()) failed[static_cast<size_t>(thread)] = set;
  });
  for (const absl::Status& status : failed) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> ShardModel::CheckGrowth(const ModelSpec& spec, int64_t memory_bytes) const {
  // What is derived from records is derived anew.
  int64_t bytes = components_ == nullptr ? 0 : components_->memory_bytes();
  for (size_t i = 0; i < tables_.size(); ++i) {
    const TableSpec& table = spec.tables[i];
    if (table.rows == tables_[i].spec.rows) continue;
    ASSIGN_OR_RETURN(const SlotMap* const map, SlotsOf(table));
    bytes += TableBytesFor(table, RecordStore::RowsOf(table, *map, shard_).num_rows()).total();
    if (tables_[i].records != nullptr) bytes += tables_[i].records->stored_bytes();
  }
  if (bytes <= memory_bytes) return bytes;
  return OverloadStatus(
      reason::kOutOfMemory,
      absl::StrCat("model \"", spec_.name, "\" grows by a copy: its larger tables need ", bytes,
                   " bytes on this shard beside the present ones, ",
                   std::max<int64_t>(0, memory_bytes),
                   " are left of --memory-budget: add shards or memory"),
      absl::Seconds(1));
}

absl::StatusOr<std::unique_ptr<ShardModel>> ShardModel::Grown(const ModelSpec& spec,
                                                              int64_t memory_bytes) const {
  RETURN_IF_ERROR(CheckGrowth(spec, memory_bytes).status());
  const CreateModelCommand command{.spec = spec,
                                   .shard = shard_,
                                   .slot_maps = slot_maps_,
                                   .topology_version = topology_version_};
  std::unique_ptr<ShardModel> grown(new ShardModel(command, limits_, parallelism_, stages_));
  for (size_t i = 0; i < tables_.size(); ++i) {
    const ShardTable& present = tables_[i];
    if (spec.tables[i].rows == present.spec.rows) {
      grown->tables_.push_back(present);
      grown->tables_.back().spec = spec.tables[i];
      continue;
    }
    RETURN_IF_ERROR(grown->AddTable(spec.tables[i], memory_bytes));
    ShardTable& table = grown->tables_.back();
    if (table.spec.role == TableRole::kMemory) {
      Components::PlacePoints(*present.records, *table.records);
    } else {
      RETURN_IF_ERROR(CopyRows(present.stored(), table.stored(), bound_, parallelism_));
    }
    table.ResetAfterLoad(present.applied(), parallelism_);
  }
  grown->MakeComponents();
  if (grown->components_ != nullptr) RETURN_IF_ERROR(grown->components_->Rebuild());
  grown->LeaveOutRetiredLabels();
  return grown;
}

}  // namespace dslide::shard
