#include "services/shard/state/shard_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/rows/table_bytes.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {
namespace {

int64_t RowBytes(const ShardTable& table) {
  return 4 * (table.spec.dim + (table.store().has_bias() ? 1 : 0));
}

}  // namespace

ShardModel::ShardModel(const CreateModelCommand& command, const ModelLimits& limits,
                       Parallelism parallelism, StageTimes* stages)
    : spec_(command.spec),
      shard_(command.shard),
      slot_maps_(command.slot_maps),
      limits_(limits),
      parallelism_(parallelism),
      bound_(static_cast<float>(command.spec.magnitude_bound)),
      stages_(stages),
      topology_version_(command.topology_version) {}

absl::StatusOr<std::unique_ptr<ShardModel>> ShardModel::Create(const CreateModelCommand& command,
                                                               const ModelLimits& limits,
                                                               int64_t memory_bytes,
                                                               Parallelism parallelism,
                                                               StageTimes* stages) {
  std::unique_ptr<ShardModel> model(new ShardModel(command, limits, parallelism, stages));
  for (const TableSpec& table : model->spec_.tables) {
    RETURN_IF_ERROR(model->AddTable(table, memory_bytes - model->memory_bytes()));
  }
  model->MakeComponents();
  model->LeaveOutRetiredLabels();
  return model;
}

absl::StatusOr<const SlotMap*> ShardModel::SlotsOf(const TableSpec& spec) const {
  const auto map = std::find_if(slot_maps_.begin(), slot_maps_.end(),
                                [&](const SlotMap& m) { return m.num_slots() == spec.num_slots; });
  if (map != slot_maps_.end() && shard_.value() >= 0 && shard_.value() < map->num_shards()) {
    return &*map;
  }
  return Refuse(reason::kBadModel,
                absl::StrCat("table \"", spec.name, "\" has no slot map of ", spec.num_slots,
                             " slots for shard ", shard_.value()));
}

absl::Status ShardModel::AddTable(const TableSpec& spec, int64_t memory_bytes) {
  ASSIGN_OR_RETURN(const SlotMap* const map, SlotsOf(spec));
  ShardRows rows = RecordStore::RowsOf(spec, *map, shard_);
  const int64_t bytes = TableBytesFor(spec, rows.num_rows()).total();
  if (bytes > memory_bytes) {
    return OverloadStatus(reason::kOutOfMemory,
                          absl::StrCat("table \"", spec.name, "\" needs ", bytes,
                                       " bytes on this shard, ", std::max<int64_t>(0, memory_bytes),
                                       " are left of --memory-budget: add shards or memory"),
                          absl::Seconds(1));
  }
  ShardTable table;
  table.spec = spec;
  switch (spec.role) {
    case TableRole::kEmbedding: {
      ASSIGN_OR_RETURN(table.embedding,
                       EmbeddingTable::Create(spec, spec_.seed, std::move(rows), parallelism_));
      break;
    }
    case TableRole::kDense: {
      const int64_t answer = rows.num_rows() * (8 + 4 * spec.dim);
      if (answer > limits_.max_step_reply_bytes) {
        return Refuse(reason::kBadModel,
                      absl::StrCat("dense table \"", spec.name, "\" has ", rows.num_rows(), " x ",
                                   spec.dim, " on this shard, a DenseGather answer of ", answer,
                                   " bytes; ", limits_.max_step_reply_bytes,
                                   " are allowed: use more shards or a smaller layer"));
      }
      ASSIGN_OR_RETURN(table.dense,
                       RowStore::Create(spec, spec_.seed, std::move(rows), parallelism_));
      break;
    }
    case TableRole::kHead: {
      ASSIGN_OR_RETURN(table.head,
                       HeadTable::Create(spec, spec_.seed, std::move(rows), parallelism_));
      table.head->MeasureStages(stages_);
      break;
    }
    case TableRole::kMemory:
    case TableRole::kLabelTrees:
    case TableRole::kLinear:
    case TableRole::kFusion:
      table.records = std::make_unique<RecordStore>(spec, std::move(rows));
      break;
  }
  tables_.push_back(std::move(table));
  return absl::OkStatus();
}

int64_t ShardModel::kept_bytes() const {
  int64_t bytes = 0;
  for (const ShardTable& table : tables_)
    bytes += table.head == nullptr ? 0 : table.head->kept_bytes();
  if (components_ != nullptr) bytes += components_->kept_bytes();
  return bytes;
}

void ShardModel::ForgetKept() const {
  for (const ShardTable& table : tables_) {
    if (table.head != nullptr) table.head->ForgetKept();
  }
  if (components_ != nullptr) components_->ForgetKept();
}

int64_t ShardModel::memory_bytes() const {
  int64_t bytes = 0;
  for (const ShardTable& table : tables_) bytes += table.memory_bytes();
  if (components_ != nullptr) bytes += components_->memory_bytes();
  return bytes;
}

absl::Status ShardModel::FinishLoad(absl::Span<const Step> applied,
                                    std::vector<std::optional<HeadHashes>>* hashes) {
  if (applied.size() != tables_.size() || (hashes != nullptr && hashes->size() != tables_.size())) {
    return absl::DataLossError(absl::StrCat(
        "there are update counts for ", applied.size(), " tables and hash tables for ",
        hashes == nullptr ? applied.size() : hashes->size(), ", the model has ", tables_.size()));
  }
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (hashes == nullptr) {
      tables_[i].ResetAfterLoad(applied[i], parallelism_);
    } else {
      RETURN_IF_ERROR(
          tables_[i].RestoreAfterLoad(applied[i], std::move((*hashes)[i]), parallelism_));
    }
  }
  return components_ == nullptr ? absl::OkStatus() : components_->Rebuild();
}

void ShardModel::MakeComponents() {
  ComponentTables tables = {.spec = &spec_, .shard = shard_};
  for (ShardTable& table : tables_) {
    if (table.spec.role == TableRole::kMemory) tables.memory = table.records.get();
    if (table.spec.role == TableRole::kLabelTrees) tables.trees = table.records.get();
    if (table.spec.role == TableRole::kLinear) tables.linear = table.records.get();
    if (table.spec.role == TableRole::kFusion) tables.fusion = table.records.get();
  }
  if (tables.memory == nullptr) return;
  const int64_t num_slots = spec_.FindRole(TableRole::kMemory)->num_slots;
  tables.memory_slots =
      &*std::find_if(slot_maps_.begin(), slot_maps_.end(),
                     [&](const SlotMap& map) { return map.num_slots() == num_slots; });
  components_ = std::make_unique<Components>(tables, parallelism_);
}

DescribeModelReply ShardModel::Describe(bool with_digests) const {
  DescribeModelReply reply;
  reply.spec = spec_;
  for (const ShardTable& table : tables_) {
    reply.tables.push_back({.name = table.spec.name,
                            .shard_rows = table.stored().present(),
                            .applied_steps = table.applied().value(),
                            .memory_bytes = table.memory_bytes(),
                            .digest = with_digests ? table.stored().Digest(parallelism_) : 0});
  }
  return reply;
}

absl::StatusOr<const ShardTable*> ShardModel::Find(const std::string& name) const {
  for (const ShardTable& table : tables_) {
    if (table.spec.name == name) return &table;
  }
  return Refuse(reason::kUnknownTable,
                absl::StrCat("model \"", spec_.name, "\" has no table \"", name, "\""));
}

absl::StatusOr<const ShardTable*> ShardModel::FindRole(const std::string& name,
                                                       TableRole role) const {
  ASSIGN_OR_RETURN(const ShardTable* const table, Find(name));
  if (table->spec.role == role) return table;
  return Refuse(reason::kWrongRole,
                absl::StrCat("table \"", name, "\" is of role ", RoleName(table->spec.role),
                             ", the operation needs ", RoleName(role)));
}

absl::StatusOr<const ShardTable*> ShardModel::FindFloats(const std::string& name) const {
  ASSIGN_OR_RETURN(const ShardTable* const table, Find(name));
  if (table->records == nullptr) return table;
  return Refuse(reason::kWrongRole,
                absl::StrCat("table \"", name, "\" is of role ", RoleName(table->spec.role),
                             ", whose rows are records: the operation needs rows of floats"));
}

absl::StatusOr<ShardTable*> ShardModel::FindRole(const std::string& name, TableRole role) {
  ASSIGN_OR_RETURN(const ShardTable* const table, std::as_const(*this).FindRole(name, role));
  return const_cast<ShardTable*>(table);
}

absl::Status ShardModel::CheckMagnitude(absl::string_view field,
                                        absl::Span<const float> values) const {
  if (AllWithin(values.data(), static_cast<int64_t>(values.size()), bound_)) {
    return absl::OkStatus();
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!AllWithin(&values[i], 1, bound_)) {
      return Refuse(reason::kOverMagnitude,
                    absl::StrCat(field, " has ", values[i], " at position ", i,
                                 ", the model's magnitude_bound is ", bound_,
                                 ": lower the learning rate or clip"));
    }
  }
  return absl::InternalError("a vector check and its elements disagree");
}

absl::StatusOr<std::vector<LocalRow>> ShardModel::ToLocal(const ShardTable& table,
                                                          absl::Span<const RowId> rows) const {
  const ShardRows& held = table.stored().rows();
  std::vector<LocalRow> locals(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!held.Holds(rows[i])) {
      const bool outside = rows[i].value() >= held.table_rows();
      return Refuse(
          reason::kForeignRow,
          absl::StrCat(
              "row ", rows[i].value(), " of table \"", table.spec.name, "\" ",
              outside ? "is beyond its " : "is held by another shard than this one, number ",
              outside ? held.table_rows() : shard_.value(),
              outside ? absl::StrCat(" rows: dslide model grow ", spec_.name, " --table ",
                                     table.spec.name, " --rows ", int64_t{rows[i].value()} + 1)
                      : ": slice the request by the slot map"));
    }
    locals[i] = held.ToLocal(rows[i]);
  }
  return locals;
}

absl::Status ShardModel::CheckStepReply(int64_t batch, int64_t dim) const {
  const int64_t bytes = batch * dim * (spec_.activations == ActivationType::kBf16 ? 2 : 4);
  if (bytes <= limits_.max_step_reply_bytes) return absl::OkStatus();
  return Refuse(
      reason::kOverLimit,
      absl::StrCat("the answer for ", batch, " samples of ", dim, " numbers has ", bytes,
                   " bytes, ", limits_.max_step_reply_bytes, " are allowed: send smaller batches"));
}

void ShardModel::CountUpdate(const ShardTable& table) {
  counters_.dense_equivalent_bytes += table.store().num_rows() * RowBytes(table);
}

}  // namespace dslide::shard
