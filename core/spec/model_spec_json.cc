#include "core/spec/model_spec_json.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/spec/json_archive.h"
#include "core/spec/model_spec_visitor.h"

namespace dslide {
namespace {

absl::StatusOr<ModelSpec> Parse(absl::string_view text) {
  Json document;
  RETURN_IF_ERROR(ParseJson(text, document));
  ModelSpec spec;
  absl::Status status;
  FieldsFromJson(document, "", &status, spec);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(spec.Validate(/*sizes_known=*/false));
  return spec;
}

}  // namespace

absl::StatusOr<ModelSpec> ModelSpecFromJson(absl::string_view text, absl::string_view origin) {
  absl::StatusOr<ModelSpec> spec = Parse(text);
  if (spec.ok()) return spec;
  return absl::Status(spec.status().code(), absl::StrCat(origin, ": ", spec.status().message()));
}

std::string ModelSpecToJson(const ModelSpec& spec) { return FieldsToJson(spec).dump(2) + "\n"; }

}  // namespace dslide
