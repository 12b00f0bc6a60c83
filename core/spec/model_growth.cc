#include "core/spec/model_growth.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/spec/spec_difference.h"
#include "core/spec/table_rows.h"

namespace dslide {

absl::StatusOr<ModelSpec> GrowTable(const ModelSpec& spec, absl::string_view table, int64_t rows) {
  ModelSpec grown = spec;
  const auto found = std::find_if(grown.tables.begin(), grown.tables.end(),
                                  [&](const TableSpec& each) { return each.name == table; });
  if (found == grown.tables.end()) {
    return absl::NotFoundError(
        absl::StrCat("model \"", spec.name, "\" has no table \"", table, "\""));
  }
  if (found->role != TableRole::kEmbedding && found->role != TableRole::kHead) {
    return absl::InvalidArgumentError(
        absl::StrCat("table \"", table, "\" is of the role ", RoleName(found->role),
                     ": tables of the roles embedding and head grow"));
  }
  // Their trees and fusion are solved for the labels that there are.
  if (spec.FindRole(TableRole::kMemory) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model \"", spec.name,
                     "\" has tables of records, which are made for its labels: a network grows, "
                     "this model is to be trained again"));
  }
  if (rows < found->rows) {
    return absl::FailedPreconditionError(absl::StrCat("table \"", table, "\" has ", found->rows,
                                                      " rows, ", rows,
                                                      " are fewer: tables never shrink"));
  }
  if (rows == found->rows) return grown;
  found->base_rows = BaseRows(*found);
  found->rows = rows;
  RETURN_IF_ERROR(grown.Validate(/*sizes_known=*/true));
  return grown;
}

ModelSpec AsGrown(const ModelSpec& known, ModelSpec other) {
  for (size_t i = 0; i < std::min(known.tables.size(), other.tables.size()); ++i) {
    const TableSpec& table = known.tables[i];
    TableSpec& earlier = other.tables[i];
    if (BaseRows(earlier) != BaseRows(table) || earlier.rows >= table.rows) continue;
    earlier.rows = table.rows;
    earlier.base_rows = table.base_rows;
  }
  return other;
}

bool IsGrownFrom(const ModelSpec& known, const ModelSpec& spec) {
  bool more = false;
  for (size_t i = 0; i < std::min(known.tables.size(), spec.tables.size()); ++i) {
    more = more || spec.tables[i].rows > known.tables[i].rows;
  }
  return more && !FirstDifference(spec, known).has_value();
}

}  // namespace dslide
