#include "services/coordinator/jobs/job_spec.h"

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "services/coordinator/membership/names.h"

namespace dslide::coordinator {
namespace {

absl::Status CheckField(const char* field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return StatusWithReason(
      absl::StatusCode::kInvalidArgument, reason::kBadJob,
      absl::StrCat("job spec: ", field, " ", value, " is outside [", min, ", ", max, "]"));
}

}  // namespace

absl::Status ValidateJobSpec(const JobSpec& spec) {
  RETURN_IF_ERROR(CheckName("job", spec.job));
  RETURN_IF_ERROR(CheckName("model", spec.model));
  RETURN_IF_ERROR(CheckField("samples_per_epoch", spec.samples_per_epoch, 1, int64_t{1} << 40));
  RETURN_IF_ERROR(CheckField("chunk_samples", spec.chunk_samples, 1, int64_t{1} << 40));
  RETURN_IF_ERROR(CheckField("max_epochs", spec.max_epochs, spec.staged ? 0 : 1, 1'000'000));
  RETURN_IF_ERROR(CheckField("patience_epochs", spec.patience_epochs, 0, 1'000'000));
  RETURN_IF_ERROR(
      CheckField("number of rates", static_cast<int64_t>(spec.rates.size()), 0, kMaxModelTables));
  for (const TableRate& rate : spec.rates) {
    RETURN_IF_ERROR(CheckName("rates.table", rate.table));
    if (const absl::Status valid = rate.Validate(); !valid.ok()) {
      return StatusWithReason(
          absl::StatusCode::kInvalidArgument, reason::kBadJob,
          absl::StrCat("job spec: rates of table \"", rate.table, "\": ", valid.message()));
    }
  }
  return CheckField("number of chunks (samples_per_epoch / chunk_samples)", spec.NumChunks(), 1,
                    kMaxChunks);
}

}  // namespace dslide::coordinator
