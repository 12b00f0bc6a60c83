#include "core/model/model_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"

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
  RETURN_IF_ERROR(CheckInteger("recall_samples", head.recall_samples, 0, 65536));
  return CheckInteger("recall_every_steps", head.recall_every_steps, 0, 1000000);
}

absl::Status ValidateRows(const TableSpec& table, bool sizes_known) {
  if (table.role == TableRole::kDense) return CheckInteger("rows", table.rows, 1, kMaxRowDim);
  if (sizes_known && table.rows == 0) {
    return absl::InvalidArgumentError(
        "rows is 0 (\"from the data\"), but a model is created with its number of rows");
  }
  return CheckInteger("rows", table.rows, 0, kMaxTableRows);
}

absl::Status ValidateTable(const TableSpec& table, bool sizes_known) {
  RETURN_IF_ERROR(CheckName("name", table.name));
  RETURN_IF_ERROR(ValidateRows(table, sizes_known));
  RETURN_IF_ERROR(CheckInteger("dim", table.dim, 1, kMaxRowDim));
  RETURN_IF_ERROR(CheckInteger("num_slots", table.num_slots, 1, kMaxNumSlots));
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
  if (table.role == TableRole::kHead) return Prefixed("head.", ValidateHead(table.head));
  if (table.head != HeadSpec()) {
    return absl::InvalidArgumentError("head is set, but the table's role is not head");
  }
  return absl::OkStatus();
}

// Roles in the order of the forward pass, and widths that fit.
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
  return CheckInteger("patience_epochs", training.patience_epochs, 0, 1000000);
}

}  // namespace

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
  if (!(magnitude_bound > 0.0 && magnitude_bound <= 1e30)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("magnitude_bound is %g, must be in (0, 1e30]", magnitude_bound));
  }
  return Prefixed("training.", ValidateTraining(training));
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

HeadSpec ResolvedHead(const TableSpec& head) {
  // A scan of so many rows takes about a tenth of a step, so that recall costs half a percent.
  constexpr int64_t kRowsPerTwentySteps = 100'000;
  HeadSpec resolved = head.head;
  resolved.hash = ResolveHashSpec(head.head.hash, head.rows);
  if (resolved.recall_every_steps == 0) {
    resolved.recall_every_steps = 20 * (1 + head.rows / kRowsPerTwentySteps);
  }
  return resolved;
}

}  // namespace dslide
