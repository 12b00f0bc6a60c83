// v1::ModelSpec <-> ModelSpec.

#pragma once

#include "absl/status/statusor.h"
#include "core/model/model_spec.h"
#include "dslide/v1/model.pb.h"

namespace dslide::wire {

// Errors: InvalidArgument with a reason word when an enumeration is unspecified or unknown, or when
// ModelSpec::Validate(sizes_known) refuses the result; the message names the field. The head's part
// of a table without that role, and absent messages, take the defaults.
absl::StatusOr<ModelSpec> DecodeModelSpec(const v1::ModelSpec& wire, bool sizes_known);

// DecodeModelSpec inverts it exactly for every valid spec.
void EncodeModelSpec(const ModelSpec& spec, v1::ModelSpec* out);

}  // namespace dslide::wire
