#include "client/cli/train/step_fit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/cluster/model_plan.h"
#include "client/cli/console/terminal.h"
#include "core/base/status_macros.h"
#include "core/engine/data/dataset_info.h"
#include "core/wire/arrays/array_codec.h"

namespace dslide::cli {
namespace {

constexpr int64_t kPlannedBatch = 256;  // a larger one's messages are as many times larger

}  // namespace

absl::StatusOr<StepFit> FitSteps(const Dataset& data, const ModelSpec& spec, int64_t shards) {
  const int64_t batch = std::min(spec.training.batch_size, data.num_points());
  StepFit fit{.batch = batch};
  if (spec.FindRole(TableRole::kHead) == nullptr) return fit;
  PlanInput input;
  input.spec = spec;
  input.spec.training.batch_size = std::min(batch, kPlannedBatch);
  input.shards = shards;
  ASSIGN_OR_RETURN(const PointSizes sizes, SamplePointSizes(data));
  input.features_per_sample = sizes.features;
  input.labels_per_sample = sizes.labels;
  ASSIGN_OR_RETURN(const WirePlan plan, PlanWire(input));
  const int64_t bytes = plan.largest_message_bytes * batch / input.spec.training.batch_size;
  if (bytes <= wire::kMaxMessageBytes) return fit;
  fit.batch = std::max<int64_t>(1, batch * wire::kMaxMessageBytes / bytes);
  fit.why = absl::StrFormat(
      "a step of %d points with %.0f features takes a message of %s, and 4 MiB are the most", batch,
      sizes.features, ReadableBytes(static_cast<double>(bytes)));
  return fit;
}

absl::Status FitBatch(const Dataset& data, int64_t shards, bool asked, ModelSpec& spec,
                      ProgressSink& progress) {
  ASSIGN_OR_RETURN(const StepFit fit, FitSteps(data, spec, shards));
  if (fit.why.empty()) return absl::OkStatus();
  if (asked) {
    return absl::InvalidArgumentError(
        absl::StrCat(fit.why, ": give --batch-size ", fit.batch, " or less, or more shards"));
  }
  progress.Say(absl::StrCat("Steps have ", fit.batch, " points: ", fit.why));
  spec.training.batch_size = fit.batch;
  return absl::OkStatus();
}

}  // namespace dslide::cli
