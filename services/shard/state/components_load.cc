// Records that come from another cluster.

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/fusion/fusion_record.h"
#include "core/engine/memory/point_record.h"
#include "services/shard/state/components.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {
namespace {

absl::Status CheckLoadedPoint(const TableSpec& table, RowId row, const std::string& record) {
  RETURN_IF_ERROR(CheckPointRecord(record));
  const PointView point(record.data());
  if (point.number() % static_cast<uint64_t>(table.rows) != row.value()) {
    return absl::DataLossError(absl::StrCat("point ", point.number(), " does not belong here"));
  }
  if (point.num_labels() > 0 && point.labels().back().value() >= table.memory.labels) {
    return absl::DataLossError(absl::StrCat("it has label ", point.labels().back().value(),
                                            ", the memory has ", table.memory.labels, " labels"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Components::BytesOf(const LoadRowsOp& op) {
  // A point's record and its postings, and what is kept for each row.
  return 3 * static_cast<int64_t>(op.block.records.size()) +
         96 * static_cast<int64_t>(op.block.rows.size());
}

absl::Status Components::CheckLoaded(const TableSpec& table, RowId row,
                                     const std::string& record) const {
  switch (table.role) {
    case TableRole::kMemory:
      return CheckLoadedPoint(table, row, record);
    case TableRole::kLabelTrees:
      return CheckPiece({.table = table.name, .row = row, .record = record});
    case TableRole::kLinear:
      return CheckSparseRowRecord(record, kMaxTableRows);
    default:
      return DecodeFusion(record).status();
  }
}

absl::Status Components::LoadRows(const LoadRowsOp& op, absl::Span<const LocalRow> rows) {
  const TableSpec& table = *tables_.spec->FindTable(op.table);
  RecordStore& store = *StoreOf(table.role);
  const StoredRowBlock& block = op.block;
  std::vector<std::string> records;  // copies, as what arrives lies at any byte
  absl::string_view rest = block.records;
  for (size_t i = 0; i < rows.size(); ++i) {
    records.emplace_back(rest.substr(0, block.sizes[i]));
    rest.remove_prefix(block.sizes[i]);
    const absl::Status valid = CheckLoaded(table, block.rows[i], records.back());
    if (valid.ok()) continue;
    return Refuse(reason::kBadSize, absl::StrCat("table \"", op.table, "\", row ",
                                                 block.rows[i].value(), ": ", valid.message()));
  }
  if (table.role == TableRole::kLinear) scorer_.Forget();
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_point = table.role == TableRole::kMemory;
    if (is_point && PointAt(rows[i].value()).present()) RemovePoint(rows[i].value());
    store.Put(rows[i], absl::MakeConstSpan(records[i].data(), records[i].size()));
    if (is_point) Index(rows[i].value());
    if (table.role != TableRole::kLinear) continue;
    const absl::Span<const uint32_t> columns =
        SparseRowView(store.Record(rows[i]).data()).columns();
    if (!columns.empty()) columns_ = std::max(columns_, int64_t{columns.back()} + 1);
  }
  // The largest number may have been replaced.
  if (table.role == TableRole::kMemory) next_number_ = -1;
  tree_ = nullptr;
  training_ = nullptr;
  return absl::OkStatus();
}

}  // namespace dslide::shard
