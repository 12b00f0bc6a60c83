#include "core/wire/model_spec_codec.h"

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_spec_visitor.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/message_archive.h"

namespace dslide::wire {

absl::StatusOr<ModelSpec> DecodeModelSpec(const v1::ModelSpec& wire, bool sizes_known) {
  if (wire.tables_size() > kMaxModelTables) {
    return Refusal(
        reason::kOverLimit, "tables",
        absl::StrCat("has ", wire.tables_size(), " entries, may have ", kMaxModelTables));
  }
  ModelSpec spec;
  absl::Status status;
  MessageReader reader(wire, "", &status);
  VisitFields(reader, spec);
  RETURN_IF_ERROR(status);
  if (const absl::Status valid = spec.Validate(sizes_known); !valid.ok()) {
    return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kBadModel, valid.message());
  }
  return spec;
}

void EncodeModelSpec(const ModelSpec& spec, v1::ModelSpec* out) {
  ModelSpec copy = spec;  // the archives fill or read through one reference type
  out->Clear();
  MessageWriter writer(out);
  VisitFields(writer, copy);
}

}  // namespace dslide::wire
