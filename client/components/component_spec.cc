#include "client/components/component_spec.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/spec/table_rows.h"

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

// The memory of the model that is there; null for a new one, or for fewer labels or points than it
// was made for, which are other data.
const TableSpec* FindKnown(const ModelSpec* known, const ComponentSizes& sizes,
                           const TableSpec& table) {
  const TableSpec* const memory = known == nullptr ? nullptr : known->FindRole(TableRole::kMemory);
  if (memory == nullptr || sizes.labels < BaseLabels(memory->memory)) return nullptr;
  // A spec that says how much room there is does not take it from the data.
  return table.rows != 0 || sizes.points >= BaseRows(*memory) ? memory : nullptr;
}

struct KnownMemory {
  const ModelSpec& spec;
  const TableSpec& memory;
  bool grow = false;
};

absl::Status TooSmall(const KnownMemory& known, absl::string_view what, int64_t has,
                      const ComponentSizes& sizes, int64_t wants) {
  const bool points = what == "points";
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
      absl::StrCat("model \"", known.spec.name, "\" has ", points ? "room for " : "", has, " ",
                   what, ", but ", sizes.path, " has ", wants, ": --grow gives it ",
                   points ? "the room" : "the rows", ", and so does dslide model grow ",
                   known.spec.name, " ",
                   points ? absl::StrCat("--table ", known.memory.name, " --rows ", wants)
                          : absl::StrCat("--labels ", wants)));
}

// Sizes that the spec gives otherwise stay.
absl::Status TakeKnown(const KnownMemory& known, const ComponentSizes& sizes, TableSpec& table) {
  const TableSpec& memory = known.memory;
  const auto is_any = [](int64_t size, std::initializer_list<int64_t> all) {
    return std::find(all.begin(), all.end(), size) != all.end();
  };
  if (is_any(table.rows, {0, memory.rows, BaseRows(memory), sizes.points})) {
    if (sizes.points > memory.rows && !known.grow) {
      return TooSmall(known, "points", memory.rows, sizes, sizes.points);
    }
    table.rows = std::max(memory.rows, sizes.points);
    table.base_rows = table.rows > BaseRows(memory) ? BaseRows(memory) : 0;
  }
  MemorySpec& labels = table.memory;
  const int64_t base = BaseLabels(memory.memory);
  if (is_any(labels.labels, {0, memory.memory.labels, base, sizes.labels})) {
    if (sizes.labels > memory.memory.labels && !known.grow) {
      return TooSmall(known, "labels", memory.memory.labels, sizes, sizes.labels);
    }
    labels.labels = std::max(memory.memory.labels, sizes.labels);
    labels.base_labels = labels.labels > base ? base : 0;
  }
  return absl::OkStatus();
}

}  // namespace

bool HasComponents(const ModelSpec& spec) { return spec.FindRole(TableRole::kMemory) != nullptr; }

absl::Status FillComponentSizes(const ComponentSizes& sizes, const ModelSpec* known, bool grow,
                                ModelSpec& spec) {
  const TableSpec* memory = nullptr;  // the known one
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kMemory) {
      memory = FindKnown(known, sizes, table);
      if (memory != nullptr) {
        RETURN_IF_ERROR(TakeKnown({.spec = *known, .memory = *memory, .grow = grow}, sizes, table));
      }
      RETURN_IF_ERROR(FillSize(table, "rows", sizes.points, table.rows));
      RETURN_IF_ERROR(FillSize(table, "memory.labels", sizes.labels, table.memory.labels));
    } else if (table.role == TableRole::kFusion) {
      table.rows = 1;
    }
  }
  for (TableSpec& table : spec.tables) {
    if (table.role != TableRole::kLabelTrees || table.trees.depth >= 0) continue;
    const TableSpec* const trees =
        memory == nullptr ? nullptr : known->FindRole(TableRole::kLabelTrees);
    table.trees.depth = trees != nullptr
                            ? trees->trees.depth
                            : TreeShape::DepthFor(sizes.used_labels, table.trees.leaf_labels);
  }
  FillTreeRows(spec);
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
