#include "core/spec/model_growth.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/spec/spec_difference.h"
#include "core/spec/table_rows.h"

namespace dslide {
namespace {

TableSpec* FindMutable(ModelSpec& spec, absl::string_view name) {
  const auto found = std::find_if(spec.tables.begin(), spec.tables.end(),
                                  [&](const TableSpec& table) { return table.name == name; });
  return found == spec.tables.end() ? nullptr : &*found;
}

TableSpec* FindMutable(ModelSpec& spec, TableRole role) {
  const TableSpec* const found = spec.FindRole(role);
  return found == nullptr ? nullptr : FindMutable(spec, found->name);
}

void SetRows(TableSpec& table, int64_t rows) {
  if (rows <= table.rows) return;
  table.base_rows = BaseRows(table);
  table.rows = rows;
}

absl::Status CheckGrows(const ModelSpec& spec, const TableSpec& table) {
  switch (table.role) {
    case TableRole::kEmbedding:
    case TableRole::kHead:
      return absl::OkStatus();
    case TableRole::kMemory:
      if (spec.FindRole(TableRole::kLinear) != nullptr) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("model \"", spec.name,
                       "\" has no label trees, and without them each point "
                       "lies on one shard, by its row: with more rows of table \"",
                       table.name, "\" it would lie on another; train with as many as are needed"));
    case TableRole::kLabelTrees:
    case TableRole::kLinear:
      return absl::InvalidArgumentError(
          absl::StrCat("table \"", table.name, "\" is of the role ", RoleName(table.role),
                       ": its rows follow from the labels, which grow by --labels"));
    case TableRole::kDense:
    case TableRole::kFusion:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("table \"", table.name, "\" is of the role ", RoleName(table.role),
                   ": tables of the roles embedding, head and memory grow"));
}

}  // namespace

int64_t SizeBefore(const ModelSpec& spec, const Growth& growth) {
  if (growth.labels > 0) return spec.num_labels();
  const TableSpec* const table = spec.FindTable(growth.table);
  return table == nullptr ? 0 : table->rows;
}

absl::StatusOr<ModelSpec> GrowSpec(const ModelSpec& spec, const Growth& growth) {
  const bool by_table = !growth.table.empty() || growth.rows != 0;
  if (by_table == (growth.labels != 0)) {
    return absl::InvalidArgumentError("name a table and its rows, or the labels of the model");
  }
  return by_table ? GrowTable(spec, growth.table, growth.rows) : GrowLabels(spec, growth.labels);
}

absl::StatusOr<ModelSpec> GrowTable(const ModelSpec& spec, absl::string_view table, int64_t rows) {
  ModelSpec grown = spec;
  TableSpec* const found = FindMutable(grown, table);
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("model \"", spec.name, "\" has no table \"", table, "\""));
  }
  RETURN_IF_ERROR(CheckGrows(spec, *found));
  if (rows < found->rows) {
    return absl::FailedPreconditionError(absl::StrCat("table \"", table, "\" has ", found->rows,
                                                      " rows, ", rows,
                                                      " are fewer: tables never shrink"));
  }
  if (rows == found->rows) return grown;
  SetRows(*found, rows);
  if (TableSpec* const memory = FindMutable(grown, TableRole::kMemory);
      found->role == TableRole::kHead && memory != nullptr && rows > memory->memory.labels) {
    memory->memory.base_labels = BaseLabels(memory->memory);
    memory->memory.labels = rows;
    FillTreeRows(grown);
  }
  RETURN_IF_ERROR(grown.Validate(/*sizes_known=*/true));
  return grown;
}

absl::StatusOr<ModelSpec> GrowLabels(const ModelSpec& spec, int64_t labels) {
  if (const TableSpec* const head = spec.FindRole(TableRole::kHead)) {
    return GrowTable(spec, head->name, labels);
  }
  ModelSpec grown = spec;
  TableSpec* const table = FindMutable(grown, TableRole::kMemory);
  if (table == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("model \"", spec.name, "\" has no labels"));
  }
  MemorySpec& memory = table->memory;
  if (labels < memory.labels) {
    return absl::FailedPreconditionError(absl::StrCat("model \"", spec.name, "\" has ",
                                                      memory.labels, " labels, ", labels,
                                                      " are fewer: models never shrink"));
  }
  if (labels == memory.labels) return grown;
  memory.base_labels = BaseLabels(memory);
  memory.labels = labels;
  FillTreeRows(grown);
  RETURN_IF_ERROR(grown.Validate(/*sizes_known=*/true));
  return grown;
}

ModelSpec AsGrown(const ModelSpec& known, ModelSpec other) {
  bool more_labels = false;
  for (size_t i = 0; i < std::min(known.tables.size(), other.tables.size()); ++i) {
    const TableSpec& table = known.tables[i];
    TableSpec& earlier = other.tables[i];
    if (BaseLabels(earlier.memory) == BaseLabels(table.memory) &&
        earlier.memory.labels < table.memory.labels) {
      more_labels = true;
      earlier.memory.labels = table.memory.labels;
      earlier.memory.base_labels = table.memory.base_labels;
    }
    if (BaseRows(earlier) != BaseRows(table) || earlier.rows >= table.rows) continue;
    earlier.rows = table.rows;
    earlier.base_rows = table.base_rows;
  }
  if (more_labels) FillTreeRows(other);
  return other;
}

bool IsGrownFrom(const ModelSpec& known, const ModelSpec& spec) {
  return !GrowthFlags(known, spec).empty() && !FirstDifference(spec, known).has_value();
}

std::string GrowthFlags(const ModelSpec& known, const ModelSpec& wanted) {
  if (known.FindRole(TableRole::kMemory) != nullptr && wanted.num_labels() > known.num_labels()) {
    return absl::StrCat("--labels ", wanted.num_labels());
  }
  for (size_t i = 0; i < std::min(known.tables.size(), wanted.tables.size()); ++i) {
    const TableSpec& table = wanted.tables[i];
    if (table.rows <= known.tables[i].rows) continue;
    return absl::StrCat("--table ", table.name, " --rows ", table.rows);
  }
  return "";
}

}  // namespace dslide
