#include "client/export/export_format.h"

#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/spec/model_spec_json.h"

namespace dslide {
namespace {

constexpr char kFormatKey[] = "dslide.format";
constexpr char kVersionKey[] = "dslide.version";
constexpr char kModelKey[] = "dslide.model";
constexpr char kStateKey[] = "dslide.optimizer_state";
constexpr char kStepsKey[] = "dslide.applied_steps";

absl::StatusOr<std::string> ValueOf(const std::string& file, const TensorMetadata& metadata,
                                    const char* key) {
  const auto found = metadata.find(key);
  if (found != metadata.end()) return found->second;
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": its metadata lacks ", key, ": only what dslide model export wrote can be imported"));
}

}  // namespace

TensorMetadata EncodeExportHead(const ExportHead& head) {
  return {{kFormatKey, absl::StrCat(kExportFormat)},
          {kVersionKey, Version()},
          {kModelKey, ModelSpecToJson(head.spec)},
          {kStateKey, head.with_state ? "true" : "false"},
          {kStepsKey, absl::StrJoin(head.applied_steps, ",")}};
}

absl::StatusOr<ExportHead> DecodeExportHead(const std::string& file,
                                            const TensorMetadata& metadata) {
  ASSIGN_OR_RETURN(const std::string format, ValueOf(file, metadata, kFormatKey));
  if (format != absl::StrCat(kExportFormat)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": is of export format ", format, ", this version reads ", kExportFormat,
                     ": use the version that wrote it or a later one"));
  }
  ExportHead head;
  ASSIGN_OR_RETURN(const std::string model, ValueOf(file, metadata, kModelKey));
  ASSIGN_OR_RETURN(head.spec, ModelSpecFromJson(model, file));
  RETURN_IF_ERROR(head.spec.Validate(/*sizes_known=*/true));
  ASSIGN_OR_RETURN(const std::string state, ValueOf(file, metadata, kStateKey));
  head.with_state = state == "true";
  ASSIGN_OR_RETURN(const std::string steps, ValueOf(file, metadata, kStepsKey));
  for (const absl::string_view text : absl::StrSplit(steps, ',')) {
    int64_t number = -1;
    if (!absl::SimpleAtoi(text, &number) || number < 0 ||
        number > std::numeric_limits<uint32_t>::max()) {
      return absl::DataLossError(absl::StrCat(file, ": its metadata's ", kStepsKey, " has ", text));
    }
    head.applied_steps.push_back(number);
  }
  if (head.applied_steps.size() == head.spec.tables.size()) return head;
  return absl::DataLossError(absl::StrCat(file, ": its metadata has ", head.applied_steps.size(),
                                          " counts of steps for ", head.spec.tables.size(),
                                          " tables"));
}

TensorInfo RecordOffsetsTensor(const TableSpec& table) {
  return {.name = absl::StrCat(table.name, ".record_offsets"),
          .type = TensorType::kI64,
          .shape = {table.rows + 1}};
}

TensorInfo RecordsTensor(const TableSpec& table, int64_t bytes) {
  return {.name = absl::StrCat(table.name, ".records"), .type = TensorType::kU8, .shape = {bytes}};
}

}  // namespace dslide
