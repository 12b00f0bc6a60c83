#include "core/spec/model_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/spec/retired_labels.h"
#include "core/spec/table_rows.h"
#include "core/spec/tree_shape.h"

namespace dslide {
namespace {

absl::Status Prefixed(absl::string_view path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, status.message()));
}

absl::Status CheckInteger(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is %d, must be in [%d, %d]", field, value, low, high));
}

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  bool good = !name.empty() && name.size() <= 64;
  for (char c : name) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is \"%s\", must be 1 to 64 of a-z, 0-9 and '-'", field, name));
}

// Checks low <= value < high, or value <= high when `closed`. Refuses NaN.
absl::Status CheckFraction(absl::string_view field, double value, double high, bool closed) {
  if (value >= 0.0 && (closed ? value <= high : value < high)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is %g, must be in [0, %g%s", field, value, high, closed ? "]" : ")"));
}

absl::Status ValidateHead(const HeadSpec& head) {
  RETURN_IF_ERROR(CheckInteger("max_active", head.max_active, 0, kMaxTableRows));
  RETURN_IF_ERROR(CheckInteger("tail_rows", head.tail_rows, 0, kMaxTableRows));
  RETURN_IF_ERROR(head.hash.Validate());
  RETURN_IF_ERROR(CheckInteger("sampled_candidates", head.sampled_candidates, 0,
                               std::max<int64_t>(head.max_active - 1, 0)));
  if (head.sampled_candidates > 0 && head.hash.proposed_per_sample > 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "sampled_candidates is %d and hash.proposed_per_sample %d, but samples that share "
        "candidates draw none: set one of them to 0",
        head.sampled_candidates, head.hash.proposed_per_sample));
  }
  RETURN_IF_ERROR(CheckInteger("recall_samples", head.recall_samples, 0, 65536));
  return CheckInteger("recall_every_steps", head.recall_every_steps, 0, 1000000);
}

// Checks low <= value <= high. Refuses NaN.
absl::Status CheckNumber(absl::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is %g, must be in [%g, %g]", field, value, low, high));
}

absl::Status ValidateMemory(const MemorySpec& memory, bool sizes_known) {
  if (sizes_known && memory.labels == 0) {
    return absl::InvalidArgumentError(
        "labels is 0 (\"from the data\"), but a model is created with its number of labels");
  }
  RETURN_IF_ERROR(CheckInteger("labels", memory.labels, 0, kMaxTableRows));
  if (memory.base_labels != 0 && (memory.base_labels < 0 || memory.base_labels >= memory.labels)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("base_labels is %d, must be above 0 and below labels, %d; 0: all of them",
                        memory.base_labels, memory.labels));
  }
  RETURN_IF_ERROR(CheckInteger("neighbours", memory.neighbours, 1, 1000));
  RETURN_IF_ERROR(CheckNumber("similarity_power", memory.similarity_power, 0.0, 8.0));
  return CheckInteger("candidates", memory.candidates, 1, 4096);
}

absl::Status ValidateTrees(const LabelTreesSpec& trees, bool sizes_known) {
  RETURN_IF_ERROR(CheckInteger("trees", trees.trees, 1, 16));
  RETURN_IF_ERROR(CheckInteger("leaf_labels", trees.leaf_labels, 2, 4096));
  RETURN_IF_ERROR(CheckInteger("level_step", trees.level_step, 1, 16));
  return CheckInteger("depth", trees.depth, sizes_known ? 0 : -1, 30);
}

absl::Status ValidateLinear(const LinearSpec& linear) {
  if (!(linear.cost > 0.0 && linear.cost <= 1e6)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cost is %g, must be in (0, 1e6]", linear.cost));
  }
  RETURN_IF_ERROR(CheckInteger("passes", linear.passes, 1, 1000));
  return CheckNumber("drop_below", linear.drop_below, 0.0, 1e3);
}

// Settings of another role than the table's.
absl::Status CheckForeignSettings(const TableSpec& table) {
  const auto check = [&](TableRole role, absl::string_view field, bool is_set) {
    if (!is_set || table.role == role) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is set, but the table's role is not ", RoleName(role)));
  };
  RETURN_IF_ERROR(check(TableRole::kHead, "head", table.head != HeadSpec()));
  RETURN_IF_ERROR(check(TableRole::kMemory, "memory", table.memory != MemorySpec()));
  RETURN_IF_ERROR(check(TableRole::kLabelTrees, "trees", table.trees != LabelTreesSpec()));
  return check(TableRole::kLinear, "linear", table.linear != LinearSpec());
}

absl::Status ValidateRows(const TableSpec& table, bool sizes_known) {
  if (table.role == TableRole::kDense && table.base_rows != 0) {
    return absl::InvalidArgumentError("base_rows is set, but a dense table has the rows it has");
  }
  if (table.role == TableRole::kDense) return CheckInteger("rows", table.rows, 1, kMaxRowDim);
  if (table.role == TableRole::kFusion && !sizes_known) {
    return CheckInteger("rows", table.rows, 0, 1);
  }
  if (table.role == TableRole::kFusion) return CheckInteger("rows", table.rows, 1, 1);
  if (sizes_known && table.rows == 0) {
    return absl::InvalidArgumentError(
        "rows is 0 (\"from the data\"), but a model is created with its number of rows");
  }
  RETURN_IF_ERROR(CheckInteger("rows", table.rows, 0, kMaxTableRows));
  if (table.base_rows == 0) return absl::OkStatus();
  if (IsRecordRole(table.role) && table.role != TableRole::kMemory) {
    return absl::InvalidArgumentError(
        "base_rows is set, but the rows of this table follow from the labels");
  }
  if (table.base_rows > 0 && table.base_rows < table.rows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("base_rows is %d, must be above 0 and below rows, %d; 0: all of them",
                      table.base_rows, table.rows));
}

// What tables of floats have and tables of records have not.
absl::Status ValidateFloats(const TableSpec& table) {
  RETURN_IF_ERROR(CheckInteger("dim", table.dim, 1, kMaxRowDim));
  if (table.bias_row && table.role != TableRole::kEmbedding) {
    return absl::InvalidArgumentError(
        "bias_row is true, but only an embedding table has one; other rows have biases of their "
        "own");
  }
  if (!(table.init.scale >= 0.0) || !std::isfinite(table.init.scale)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("init.scale is %g, must be 0 or more and finite", table.init.scale));
  }
  RETURN_IF_ERROR(Prefixed("optimizer.", table.optimizer.schedule.Validate()));
  RETURN_IF_ERROR(table.optimizer.Validate());
  if (PrecisionName(table.precision) == "unknown") {
    return absl::InvalidArgumentError(
        absl::StrFormat("precision is %d, which names none: use f32, bf16_weights or bf16",
                        static_cast<int>(table.precision)));
  }
  return absl::OkStatus();
}

absl::Status CheckNoFloats(const TableSpec& table) {
  const TableSpec plain;
  absl::string_view field;
  if (table.dim != plain.dim) field = "dim";
  if (table.bias_row != plain.bias_row) field = "bias_row";
  if (table.init != plain.init) field = "init";
  if (table.optimizer != plain.optimizer) field = "optimizer";
  if (table.precision != plain.precision) field = "precision";
  if (field.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is set, but a table of the role ", RoleName(table.role),
                   " has records of any length instead: leave it out"));
}

absl::Status ValidateTable(const TableSpec& table, bool sizes_known) {
  RETURN_IF_ERROR(CheckName("name", table.name));
  if (RoleName(table.role) == "unknown") {
    return absl::InvalidArgumentError(
        absl::StrFormat("role is %d, which names none", static_cast<int>(table.role)));
  }
  RETURN_IF_ERROR(ValidateRows(table, sizes_known));
  RETURN_IF_ERROR(CheckInteger("num_slots", table.num_slots, 1, kMaxNumSlots));
  RETURN_IF_ERROR(IsRecordRole(table.role) ? CheckNoFloats(table) : ValidateFloats(table));
  RETURN_IF_ERROR(CheckForeignSettings(table));
  RETURN_IF_ERROR(Prefixed("head.", ValidateHead(table.head)));
  RETURN_IF_ERROR(Prefixed(
      "memory.", ValidateMemory(table.memory, sizes_known && table.role == TableRole::kMemory)));
  RETURN_IF_ERROR(Prefixed(
      "trees.", ValidateTrees(table.trees, sizes_known && table.role == TableRole::kLabelTrees)));
  return Prefixed("linear.", ValidateLinear(table.linear));
}

// Rows follow from the trees.
absl::Status CheckTreeRows(const std::vector<TableSpec>& tables, bool sizes_known) {
  const TableSpec* memory = nullptr;
  const TableSpec* trees = nullptr;
  for (const TableSpec& table : tables) {
    if (table.role == TableRole::kMemory) memory = &table;
    if (table.role == TableRole::kLabelTrees) trees = &table;
  }
  if (!sizes_known || trees == nullptr) return absl::OkStatus();
  const TreeShape shape = ShapeOfTrees(memory->memory, trees->trees);
  for (const TableSpec& table : tables) {
    int64_t wanted = table.rows;
    if (table.role == TableRole::kLabelTrees) wanted = shape.num_piece_rows();
    if (table.role == TableRole::kLinear) wanted = shape.num_rows();
    if (table.rows == wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat("table \"", table.name, "\" has ", table.rows,
                                                   " rows, its trees need ", wanted));
  }
  if (shape.num_rows() <= kMaxTableRows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the trees need ", shape.num_rows(),
                                                 " linear rows, a table has at most ",
                                                 kMaxTableRows, ": use fewer trees"));
}

// At most one table of each role of records, and none without those that it works with.
absl::Status ValidateRecordTables(const std::vector<TableSpec>& tables, bool sizes_known) {
  const auto count = [&](TableRole role) {
    return std::count_if(tables.begin(), tables.end(),
                         [role](const TableSpec& table) { return table.role == role; });
  };
  const auto needs = [&](TableRole role, TableRole other) {
    if (count(role) == 0 || count(other) == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("tables has one of the role ", RoleName(role),
                                                   ", which needs one of the role ",
                                                   RoleName(other)));
  };
  for (const TableSpec& table : tables) {
    if (!IsRecordRole(table.role) || count(table.role) == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("tables has ", count(table.role),
                                                   " of the role ", RoleName(table.role),
                                                   ", must have at most one"));
  }
  RETURN_IF_ERROR(needs(TableRole::kLabelTrees, TableRole::kMemory));
  RETURN_IF_ERROR(needs(TableRole::kLabelTrees, TableRole::kLinear));
  RETURN_IF_ERROR(needs(TableRole::kLinear, TableRole::kLabelTrees));
  RETURN_IF_ERROR(needs(TableRole::kFusion, TableRole::kMemory));
  return CheckTreeRows(tables, sizes_known);
}

// Names, roles in the order of the forward pass, and widths that fit.
absl::Status ValidateChain(const std::vector<TableSpec>& tables) {
  int64_t width = 0;  // 0: not known before the first table
  for (size_t i = 0; i < tables.size(); ++i) {
    const TableSpec& table = tables[i];
    for (size_t j = 0; j < i; ++j) {
      if (tables[j].name == table.name) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "tables[%d].name is \"%s\", the name of tables[%d] too", i, table.name, j));
      }
    }
    if (IsRecordRole(table.role)) continue;
    if (i > 0 && IsRecordRole(tables[i - 1].role)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tables[%d].role is out of order: %s stands before the tables of records",
                          i, RoleName(table.role)));
    }
    if (i > 0 && (table.role == TableRole::kEmbedding || tables[i - 1].role == TableRole::kHead)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "tables[%d].role is out of order: at most one embedding, then dense tables, then at most "
          "one head",
          i));
    }
    if (width > 0 && table.dim != width) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "tables[%d].dim is %d, must be %d, the width of tables[%d] (\"%s\") before it", i,
          table.dim, width, i - 1, tables[i - 1].name));
    }
    width = table.role == TableRole::kDense ? table.rows : table.dim;
  }
  return absl::OkStatus();
}

absl::Status ValidateTraining(const TrainingSpec& training) {
  RETURN_IF_ERROR(CheckFraction("input_dropout", training.input_dropout, 1.0, /*closed=*/false));
  RETURN_IF_ERROR(CheckFraction("hidden_dropout", training.hidden_dropout, 1.0, /*closed=*/false));
  RETURN_IF_ERROR(CheckInteger("batch_size", training.batch_size, 1, 65536));
  RETURN_IF_ERROR(CheckInteger("in_flight_steps", training.in_flight_steps, 1, 64));
  RETURN_IF_ERROR(CheckInteger("max_epochs", training.max_epochs, 1, 1000000));
  RETURN_IF_ERROR(CheckInteger("chunk_samples", training.chunk_samples, 0, int64_t{1} << 40));
  RETURN_IF_ERROR(
      CheckFraction("validation_fraction", training.validation_fraction, 0.5, /*closed=*/true));
  RETURN_IF_ERROR(
      CheckInteger("validation_max_samples", training.validation_max_samples, 0, int64_t{1} << 40));
  RETURN_IF_ERROR(CheckInteger("patience_epochs", training.patience_epochs, 0, 1000000));
  return CheckFraction("propensity_strength", training.propensity_strength, 1.0, /*closed=*/true);
}

// labels: of the model.
absl::Status ValidateRetiredLabels(const std::string& text, int64_t labels) {
  if (text.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(text.size()) > kMaxRetiredText) {
    return absl::InvalidArgumentError(
        absl::StrFormat("have a text of %d bytes, may have %d: retire ranges of labels, or train a "
                        "model without them",
                        text.size(), kMaxRetiredText));
  }
  ASSIGN_OR_RETURN(const RetiredLabels retired, RetiredLabels::Parse(text));
  if (retired.end() > labels) {
    return absl::InvalidArgumentError(
        absl::StrFormat("name label %d, the model has %d labels", retired.end() - 1, labels));
  }
  if (retired.size() == labels) {
    return absl::InvalidArgumentError("are all labels: nothing would be predicted");
  }
  if (const std::string shortest = retired.ToText(); text != shortest) {
    return absl::InvalidArgumentError(
        "are not ascending numbers and the longest ranges of them, "
        "as 3,7-12");
  }
  return absl::OkStatus();
}

}  // namespace

TreeShape ShapeOfTrees(const MemorySpec& memory, const LabelTreesSpec& trees) {
  return TreeShape({.now = memory.labels, .base = BaseLabels(memory)}, trees.trees, trees.depth,
                   trees.level_step);
}

void FillTreeRows(ModelSpec& spec) {
  const TableSpec* const trees = spec.FindRole(TableRole::kLabelTrees);
  if (trees == nullptr) return;
  const TreeShape shape = ShapeOfTrees(spec.FindRole(TableRole::kMemory)->memory, trees->trees);
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kLabelTrees) table.rows = shape.num_piece_rows();
    if (table.role == TableRole::kLinear) table.rows = shape.num_rows();
  }
}

bool IsRecordRole(TableRole role) { return role >= TableRole::kMemory; }

bool IsReplicated(TableRole role) { return IsRecordRole(role) && role != TableRole::kLinear; }

absl::string_view RoleName(TableRole role) {
  switch (role) {
    case TableRole::kEmbedding:
      return "embedding";
    case TableRole::kDense:
      return "dense";
    case TableRole::kHead:
      return "head";
    case TableRole::kMemory:
      return "memory";
    case TableRole::kLabelTrees:
      return "label_trees";
    case TableRole::kLinear:
      return "linear";
    case TableRole::kFusion:
      return "fusion";
  }
  return "unknown";
}

absl::string_view PrecisionName(RowPrecision precision) {
  switch (precision) {
    case RowPrecision::kF32:
      return "f32";
    case RowPrecision::kBf16Weights:
      return "bf16_weights";
    case RowPrecision::kBf16:
      return "bf16";
  }
  return "unknown";
}

absl::Status ModelSpec::Validate(bool sizes_known) const {
  RETURN_IF_ERROR(CheckName("name", name));
  if (tables.empty() || tables.size() > kMaxModelTables) {
    return absl::InvalidArgumentError(absl::StrFormat("tables has %d entries, must have 1 to %d",
                                                      tables.size(), kMaxModelTables));
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    RETURN_IF_ERROR(
        Prefixed(absl::StrCat("tables[", i, "]."), ValidateTable(tables[i], sizes_known)));
  }
  RETURN_IF_ERROR(ValidateChain(tables));
  RETURN_IF_ERROR(ValidateRecordTables(tables, sizes_known));
  const TableSpec* const head = FindRole(TableRole::kHead);
  if (training.propensity_strength > 0.0 &&
      (head == nullptr || head->head.loss != HeadLoss::kSoftmax)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "training.propensity_strength is %g, which needs a head with the loss softmax: set it to 0",
        training.propensity_strength));
  }
  if (!(magnitude_bound > 0.0 && magnitude_bound <= 1e30)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("magnitude_bound is %g, must be in (0, 1e30]", magnitude_bound));
  }
  RETURN_IF_ERROR(Prefixed("training.", ValidateTraining(training)));
  return Prefixed(
      "retired_labels ",
      ValidateRetiredLabels(retired_labels, sizes_known ? num_labels() : kMaxTableRows));
}

const TableSpec* ModelSpec::FindTable(absl::string_view table_name) const {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const TableSpec& table) { return table.name == table_name; });
  return found == tables.end() ? nullptr : &*found;
}

const TableSpec* ModelSpec::FindRole(TableRole role) const {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const TableSpec& table) { return table.role == role; });
  return found == tables.end() ? nullptr : &*found;
}

int64_t ModelSpec::num_labels() const {
  if (const TableSpec* const head = FindRole(TableRole::kHead)) return head->rows;
  const TableSpec* const memory = FindRole(TableRole::kMemory);
  return memory == nullptr ? 0 : memory->memory.labels;
}

HeadSpec ResolvedHead(const TableSpec& head) {
  // A scan of so many rows takes about a tenth of a step, so that recall costs half a percent.
  constexpr int64_t kRowsPerTwentySteps = 100'000;
  const int64_t rows = BaseRows(head);
  HeadSpec resolved = head.head;
  resolved.hash = ResolveHashSpec(head.head.hash, rows);
  if (resolved.recall_every_steps == 0) {
    resolved.recall_every_steps = 20 * (1 + rows / kRowsPerTwentySteps);
  }
  return resolved;
}

}  // namespace dslide
