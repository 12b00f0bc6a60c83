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

const char* JobStageName(JobStage stage) {
  switch (stage) {
    case JobStage::kPreparation:
      return "preparation";
    case JobStage::kTraining:
      return "training";
    case JobStage::kCompletion:
      return "completion";
  }
  return "unknown";
}

absl::Status JobSpec::Validate() const {
  RETURN_IF_ERROR(CheckName("job", job));
  RETURN_IF_ERROR(CheckName("model", model));
  RETURN_IF_ERROR(CheckField("samples_per_epoch", samples_per_epoch, 1, int64_t{1} << 40));
  RETURN_IF_ERROR(CheckField("chunk_samples", chunk_samples, 1, int64_t{1} << 40));
  RETURN_IF_ERROR(CheckField("max_epochs", max_epochs, staged ? 0 : 1, 1'000'000));
  RETURN_IF_ERROR(CheckField("patience_epochs", patience_epochs, 0, 1'000'000));
  return CheckField("number of chunks (samples_per_epoch / chunk_samples)", NumChunks(), 1,
                    kMaxChunks);
}

}  // namespace dslide::coordinator
