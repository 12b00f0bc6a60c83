// Whether the steps of a training can be sent to the shards.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/trainer/progress.h"
#include "core/engine/data/dataset.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

struct StepFit {
  int64_t batch = 0;  // points of a step whose messages are not too large; the spec's where it fits
  std::string why = {};  // "" where the spec's fits
};

// By what the points are like on average, before anything is sent; a step that has uncommonly large
// points is cut later. Errors: those of PlanWire() and of reading the data.
absl::StatusOr<StepFit> FitSteps(const Dataset& data, const ModelSpec& spec, int64_t shards);

// A batch size that nobody `asked` for is made smaller when its steps cannot be sent, of which
// `progress` is told. Errors: those of FitSteps(); InvalidArgument when somebody asked.
absl::Status FitBatch(const Dataset& data, int64_t shards, bool asked, ModelSpec& spec,
                      ProgressSink& progress);

}  // namespace dslide::cli
