// What the fields of a received v1.RowBlock must be like before its rows are looked at.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/ids.h"
#include "core/spec/model_spec.h"
#include "core/wire/bulk/bulk_fields.h"

namespace dslide::wire {

struct RowBlockShape {
  int64_t rows = 0;
  int64_t dim = 0;  // 0 when there are no rows
  ActivationType type = ActivationType::kF32;
  bool has_bias = false;
};

inline int64_t ElementBytes(ActivationType type) { return type == ActivationType::kF32 ? 4 : 2; }

// Checks sizes against each other; at most `max_rows` rows. `field` names the block in errors.
// Errors: InvalidArgument with a reason word.
absl::StatusOr<RowBlockShape> ShapeOf(absl::string_view field, const RowBlockFields& block,
                                      int64_t max_rows);

// ids[first ..] are below kMaxTableRows and strictly ascending, also after ids[first - 1].
absl::Status CheckAscendingIds(absl::string_view field, const std::vector<RowId>& ids,
                               size_t first);

}  // namespace dslide::wire
