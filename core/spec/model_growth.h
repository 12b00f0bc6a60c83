// Models that get more labels, features or room for points while they are trained.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/spec/model_spec.h"

namespace dslide {

// What a model has afterwards: so many rows in one table, or so many labels.
struct Growth {
  std::string table = {};
  int64_t rows = 0;
  int64_t labels = 0;  // above 0: instead of the two above
};

// What it says has now: rows of the table, or labels. 0 for a table that the model does not have.
int64_t SizeBefore(const ModelSpec& spec, const Growth& growth);

// The model as it is with that. Labels are those of the head and of all tables of records that
// follow from them; they grow with the head's rows, too. With what it has, it is as it was.
// Errors: NotFound for a table it does not have; InvalidArgument for one that does not grow, for
// neither or both, and beyond kMaxTableRows; FailedPrecondition for less than it has.
absl::StatusOr<ModelSpec> GrowSpec(const ModelSpec& spec, const Growth& growth);
absl::StatusOr<ModelSpec> GrowTable(const ModelSpec& spec, absl::string_view table, int64_t rows);
absl::StatusOr<ModelSpec> GrowLabels(const ModelSpec& spec, int64_t labels);

// `other`, with the tables that were made for as many rows as those of `known`, and have fewer now,
// as large as there; labels likewise.
ModelSpec AsGrown(const ModelSpec& known, ModelSpec other);

// Whether `spec` has more labels or more rows in some table than `known`, and everything else is
// equal but for the settings of jobs.
bool IsGrownFrom(const ModelSpec& known, const ModelSpec& spec);

// How a model grows by what `wanted` has more than it: "--labels 20", "--table input --rows 90".
// "" where that is nothing.
std::string GrowthFlags(const ModelSpec& known, const ModelSpec& wanted);

}  // namespace dslide
