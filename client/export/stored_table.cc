#include "client/export/stored_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

// Of one operation: a quarter of a message.
constexpr size_t kLoadBytes = size_t{1} << 20;
// Under way to each shard: enough to keep it busy.
constexpr size_t kLoadsPerShard = 2;

// What one shard has of a table, by ascending id, read ahead by one answer.
class ShardRowStream {
 public:
  ShardRowStream(ShardClient& shard, const std::string& model, const TableSpec& table,
                 bool sizes_only)
      : shard_(shard) {
    command_.model = model;
    command_.table = table.name;
    command_.end = table.rows;
    command_.sizes_only = sizes_only;
  }

  // The row if the shard has it, else nothing. Rows are asked for by ascending id.
  absl::StatusOr<bool> Find(RowId row, VisitedRow* found) {
    const int64_t wanted = row.value();
    while (at_ == reply_.block.rows.size() && wanted >= reply_.next && reply_.next < command_.end) {
      command_.first = std::max(wanted, reply_.next);
      ASSIGN_OR_RETURN(reply_, shard_.ReadRows(command_));
      at_ = 0;
      offset_ = 0;
    }
    if (at_ == reply_.block.rows.size() || reply_.block.rows[at_] != row) return false;
    const uint32_t size = reply_.block.sizes[at_];
    *found = {.row = row,
              .size = size,
              .record = command_.sizes_only
                            ? absl::string_view()
                            : absl::string_view(reply_.block.records).substr(offset_, size),
              .applied = Step(reply_.applied_steps)};
    offset_ += size;
    ++at_;
    return true;
  }

 private:
  ShardClient& shard_;
  ReadRowsCommand command_;
  ReadRowsReply reply_;
  size_t at_ = 0;
  size_t offset_ = 0;
};

}  // namespace

bool IsOnEveryShard(const ModelSpec& spec, const TableSpec& table) {
  if (!IsReplicated(table.role)) return false;
  return table.role != TableRole::kMemory || spec.FindRole(TableRole::kLinear) != nullptr;
}

absl::Status VisitRows(ClusterClient& cluster, const ModelSpec& spec, const TableSpec& table,
                       bool sizes_only, absl::FunctionRef<absl::Status(const VisitedRow&)> visit) {
  ASSIGN_OR_RETURN(const SlotMap slots, cluster.Slots(table.num_slots));
  const bool everywhere = IsOnEveryShard(spec, table);
  std::vector<ShardRowStream> streams;
  for (int64_t shard = 0; shard < cluster.num_shards(); ++shard) {
    streams.emplace_back(cluster.shard(ShardId(static_cast<int32_t>(shard))), spec.name, table,
                         sizes_only);
  }
  VisitedRow found;
  for (int64_t i = 0; i < table.rows; ++i) {
    const RowId row(static_cast<uint32_t>(i));
    const size_t shard = everywhere ? 0 : static_cast<size_t>(slots.OwnerOf(row).value());
    ASSIGN_OR_RETURN(const bool present, streams[shard].Find(row, &found));
    if (present) RETURN_IF_ERROR(visit(found));
  }
  return absl::OkStatus();
}

RowLoader::RowLoader(std::string table, SlotMap slots, bool everywhere, int64_t applied_steps,
                     const std::vector<std::unique_ptr<ShardStream>>& streams, int64_t* next_step)
    : table_(std::move(table)),
      slots_(std::move(slots)),
      everywhere_(everywhere),
      applied_steps_(applied_steps),
      streams_(&streams),
      next_step_(next_step),
      blocks_(streams.size()) {}

absl::StatusOr<RowLoader> RowLoader::Create(
    ClusterClient& cluster, const ModelSpec& spec, const TableSpec& table, int64_t applied_steps,
    const std::vector<std::unique_ptr<ShardStream>>& streams, int64_t* next_step) {
  ASSIGN_OR_RETURN(SlotMap slots, cluster.Slots(table.num_slots));
  return RowLoader(table.name, std::move(slots), IsOnEveryShard(spec, table), applied_steps,
                   streams, next_step);
}

absl::Status RowLoader::Add(RowId row, absl::string_view record) {
  const auto owner = static_cast<size_t>(slots_.OwnerOf(row).value());
  for (size_t shard = 0; shard < blocks_.size(); ++shard) {
    if (!everywhere_ && shard != owner) continue;
    StoredRowBlock& block = blocks_[shard];
    if (!block.rows.empty() && block.records.size() + record.size() > kLoadBytes) {
      RETURN_IF_ERROR(Send(shard, /*finish=*/false));
    }
    block.rows.push_back(row);
    block.sizes.push_back(static_cast<uint32_t>(record.size()));
    block.records.append(record.data(), record.size());
  }
  return absl::OkStatus();
}

absl::Status RowLoader::Finish() {
  for (size_t shard = 0; shard < blocks_.size(); ++shard) {
    RETURN_IF_ERROR(Send(shard, /*finish=*/true));
  }
  return AwaitBelow(1);
}

absl::Status RowLoader::Send(size_t shard, bool finish) {
  const int64_t step = (*next_step_)++;
  queued_.push_back(
      {shard, (*streams_)[shard]->Send(step, step,
                                       LoadRowsOp{.table = table_,
                                                  .block = std::exchange(blocks_[shard], {}),
                                                  .applied_steps = applied_steps_,
                                                  .finish = finish})});
  return AwaitBelow(kLoadsPerShard * blocks_.size());
}

absl::Status RowLoader::AwaitBelow(size_t most) {
  while (queued_.size() >= most) {
    const Queued oldest = std::move(queued_.front());
    queued_.pop_front();
    const absl::Status status = oldest.pending->Take().status();
    if (status.ok()) continue;
    return absl::Status(status.code(),
                        absl::StrCat("shard ", oldest.shard, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace dslide
