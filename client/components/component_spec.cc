#include "client/components/component_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

absl::Status FillSize(const TableSpec& table, absl::string_view field, int64_t of_data,
                      int64_t& size) {
  if (size == 0) size = of_data;
  if (size >= of_data) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("table \"", table.name, "\": ", field, " is ",
                                                 size, ", the data has ", of_data,
                                                 ": leave it out, or give at least that"));
}

}  // namespace

bool HasComponents(const ModelSpec& spec) { return spec.FindRole(TableRole::kMemory) != nullptr; }

absl::Status FillComponentSizes(const ComponentSizes& sizes, ModelSpec& spec) {
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kMemory) {
      RETURN_IF_ERROR(FillSize(table, "rows", sizes.points, table.rows));
      RETURN_IF_ERROR(FillSize(table, "memory.labels", sizes.labels, table.memory.labels));
    } else if (table.role == TableRole::kLabelTrees) {
      if (table.trees.depth < 0) {
        table.trees.depth = TreeShape::DepthFor(sizes.used_labels, table.trees.leaf_labels);
      }
    } else if (table.role == TableRole::kFusion) {
      table.rows = 1;
    }
  }
  const TableSpec* const trees = spec.FindRole(TableRole::kLabelTrees);
  if (trees == nullptr) return absl::OkStatus();
  const TreeShape shape = ShapeOfTrees(spec.FindRole(TableRole::kMemory)->memory, trees->trees);
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kLabelTrees) table.rows = shape.num_piece_rows();
    if (table.role == TableRole::kLinear) table.rows = shape.num_rows();
  }
  return absl::OkStatus();
}

ComponentTables::ComponentTables(const ModelSpec& spec)
    : memory(spec.FindRole(TableRole::kMemory)),
      trees(spec.FindRole(TableRole::kLabelTrees)),
      linear(spec.FindRole(TableRole::kLinear)),
      fusion(spec.FindRole(TableRole::kFusion)) {
  if (trees != nullptr) shape = ShapeOfTrees(memory->memory, trees->trees);
}

}  // namespace dslide
