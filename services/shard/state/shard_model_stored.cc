// Rows as they are stored: read to leave the cluster, loaded when they come from another one.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/shard/state/refusal.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {
namespace {

// Rows that one read looks at: a large table of few records must not hold up the shard.
constexpr int64_t kMostRowsLookedAt = int64_t{1} << 20;
// Id and size of a row, and what a message needs beside rows.
constexpr int64_t kBytesBesideRecord = 8;
constexpr int64_t kMessageRoom = 1024;

uint32_t LastStepOf(const RowLayout& layout, absl::Span<const char> record) {
  uint32_t step;
  std::memcpy(&step, record.data() + layout.tail_offset + 4 * (layout.tail_floats - 1),
              sizeof(step));
  return step;
}

absl::Status CheckLoadedFloats(const RowStore& store, const LoadRowsOp& op,
                               absl::Span<const LocalRow> locals, float magnitude_bound) {
  const auto bytes = static_cast<size_t>(store.record_bytes());
  for (size_t i = 0; i < locals.size(); ++i) {
    absl::Status valid = absl::InvalidArgumentError(
        absl::StrCat("row ", op.block.rows[i].value(), " has ", op.block.sizes[i],
                     " bytes, this table's rows have ", bytes,
                     ": it comes from another dim, optimizer or precision"));
    if (op.block.sizes[i] == bytes) {
      const auto record = absl::MakeConstSpan(op.block.records.data() + i * bytes, bytes);
      valid = store.CheckRecord(locals[i], record, magnitude_bound);
      if (const uint32_t last = LastStepOf(store.layout(), record);
          valid.ok() && last > op.applied_steps) {
        valid = absl::InvalidArgumentError(
            absl::StrCat("row ", op.block.rows[i].value(), " was updated in step ", last,
                         ", load_rows.applied_steps is ", op.applied_steps));
      }
    }
    if (!valid.ok()) {
      return Refuse(reason::kBadSize, absl::StrCat("table \"", op.table, "\": ", valid.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReadRowsReply> ShardModel::ReadRows(const ReadRowsCommand& command) const {
  ASSIGN_OR_RETURN(const ShardTable* const table, Find(command.table));
  const StoredRows& stored = table->stored();
  const ShardRows& held = stored.rows();
  if (command.first > command.end || command.end > held.table_rows()) {
    return Refuse(reason::kOutOfRange,
                  absl::StrCat("rows ", command.first, " to ", command.end, ": table \"",
                               command.table, "\" has ", held.table_rows(), " rows"));
  }
  const int64_t message = limits_.max_step_reply_bytes - kMessageRoom;
  ReadRowsReply reply = {.block = {},
                         .next = std::min(command.end, command.first + kMostRowsLookedAt),
                         .applied_steps = table->applied().value()};
  int64_t bytes = 0;
  for (int64_t i = command.first; i < reply.next; ++i) {
    const RowId row(static_cast<uint32_t>(i));
    if (!held.Holds(row)) continue;
    const absl::Span<const char> record = stored.RecordSpan(held.ToLocal(row));
    if (record.empty()) continue;
    const auto size = static_cast<int64_t>(command.sizes_only ? 0 : record.size());
    if (kBytesBesideRecord + size > message) {
      return Refuse(reason::kOverLimit,
                    absl::StrCat("row ", i, " of table \"", command.table, "\" has ", size,
                                 " bytes, ", message, " fit into an answer"));
    }
    bytes += kBytesBesideRecord + size;
    // Half a message: answers are buffered on both sides.
    if (bytes > message / 2 && !reply.block.rows.empty()) {
      reply.next = i;
      break;
    }
    reply.block.rows.push_back(row);
    reply.block.sizes.push_back(static_cast<uint32_t>(record.size()));
    if (size > 0) reply.block.records.append(record.data(), record.size());
  }
  return reply;
}

absl::StatusOr<LoadRowsReply> ShardModel::LoadRows(const LoadRowsOp& op) {
  ASSIGN_OR_RETURN(const ShardTable* const found, Find(op.table));
  auto& table = const_cast<ShardTable&>(*found);
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(table, op.block.rows));
  const Step applied(std::max(table.applied().value(), op.applied_steps));
  if (table.records != nullptr) {
    RETURN_IF_ERROR(components_->LoadRows(op, locals));
    table.own_applied = applied;
    return LoadRowsReply{};
  }
  RowStore& store = table.store();
  RETURN_IF_ERROR(CheckLoadedFloats(store, op, locals, bound_));
  const auto bytes = static_cast<size_t>(store.record_bytes());
  for (size_t i = 0; i < locals.size(); ++i) {
    if (store.IsAbsent(locals[i])) continue;
    RETURN_IF_ERROR(store.SetRecord(
        locals[i], absl::MakeConstSpan(op.block.records.data() + i * bytes, bytes), bound_));
  }
  if (table.head != nullptr) table.head->MarkDirty(locals);
  // At once, because an update's step is above the last step of every row.
  if (op.finish || applied > table.applied()) {
    if (table.head != nullptr) table.head->SettleHashes();
    table.ResetAfterLoad(applied, parallelism_);
  }
  return LoadRowsReply{};
}

}  // namespace dslide::shard
