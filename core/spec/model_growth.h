// Models whose tables get more rows while they are trained.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/spec/model_spec.h"

namespace dslide {

// The model with `rows` rows in one table; with those it has, it is as it was.
// Errors: NotFound for a table it does not have; InvalidArgument for one that does not grow (dense,
// of records, or beside such) and beyond kMaxTableRows; FailedPrecondition for fewer rows than it
// has.
absl::StatusOr<ModelSpec> GrowTable(const ModelSpec& spec, absl::string_view table, int64_t rows);

// `other`, with the tables that were made for as many rows as those of `known`, and have fewer now,
// as large as there.
ModelSpec AsGrown(const ModelSpec& known, ModelSpec other);

// Whether some table of `spec` has more rows than in `known`, and everything else is equal but for
// the settings of jobs.
bool IsGrownFrom(const ModelSpec& known, const ModelSpec& spec);

}  // namespace dslide
