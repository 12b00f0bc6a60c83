// Explicit rows on the wire: packed ids (sample_ids.h), and numbers beside them in f32 or bf16,
// which their size tells apart.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/ids.h"
#include "core/protocol/explicit_rows.h"
#include "core/spec/model_spec.h"

namespace dslide::wire {

// The capability of shards that take explicit rows, in steps and in TopK.
inline constexpr char kExplicitRows[] = "explicit-rows";

// The fields of a message that hold them. `weights` may be a string that is always empty.
struct ExplicitRowFields {
  absl::string_view message;  // "head_forward", for errors; "" where fields have no prefix
  absl::string_view ids_name, logit_offsets_name, weights_name;
  const std::string& ids;
  const std::string& logit_offsets;
  const std::string& weights;
};

// Empty when there are no bytes of ids. Checks sizes, the order of the ids, that offsets are finite
// and bounded, and that weights are in [0, kMaxExplicitWeight].
// Errors: InvalidArgument with a reason word, naming the field.
absl::StatusOr<ExplicitRows<RowId>> DecodeExplicitRows(const ExplicitRowFields& fields,
                                                       int64_t batch);

// Each overwritten. Offsets that are all 0, and weights that are all 1, take no bytes.
struct ExplicitRowBytes {
  std::string* ids;
  std::string* logit_offsets;
  std::string* weights;  // null: there are none to encode
};
void EncodeExplicitRows(const ExplicitRows<RowId>& rows, ActivationType type,
                        const ExplicitRowBytes& out);

}  // namespace dslide::wire
