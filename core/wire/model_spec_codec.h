// v1::ModelSpec <-> ModelSpec: the JSON form (core/spec/model_spec_json.h) as a message.

#pragma once

#include "absl/status/statusor.h"
#include "core/spec/model_spec.h"
#include "dslide/v1/model.pb.h"

namespace dslide::wire {

// Absent fields take their defaults.
// Errors: InvalidArgument with a reason word: BAD_ENUM for an unknown word, BAD_MODEL when a table
// has a field of another role or ModelSpec::Validate(sizes_known) refuses the result; the message
// names the field.
absl::StatusOr<ModelSpec> DecodeModelSpec(const v1::ModelSpec& wire, bool sizes_known);

// Every field that the roles have, defaults included. DecodeModelSpec inverts it exactly for every
// valid spec.
void EncodeModelSpec(const ModelSpec& spec, v1::ModelSpec* out);

}  // namespace dslide::wire
