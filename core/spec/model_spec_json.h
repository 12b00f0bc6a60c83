// The JSON form of a model spec, as people write it (docs/models/*.json).

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Reads a spec. `origin` names the source in errors ("docs/models/x.json").
// Missing fields take their defaults; enumerations are lower-case words ("simhash", "head").
// Errors: InvalidArgument naming origin, the path of the field ("tables[1].head.max_activ"), what
// was found and what was expected; unknown and repeated fields are errors, the former suggest the
// nearest known name. The spec is checked with Validate(false).
absl::StatusOr<ModelSpec> ModelSpecFromJson(absl::string_view text, absl::string_view origin);

// Every field, defaults included, indented by two spaces. ModelSpecFromJson inverts it exactly for
// every valid spec.
std::string ModelSpecToJson(const ModelSpec& spec);

}  // namespace dslide
