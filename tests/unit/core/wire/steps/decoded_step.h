// A step request with its envelope, as a shard reads it.

#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/steps/step_codec.h"

namespace dslide::wire {

inline absl::StatusOr<StepCommand> DecodedStep(const v1::StepRequest& request) {
  ASSIGN_OR_RETURN(Envelope envelope, DecodeEnvelope(request.envelope()));
  return DecodeStep(request, std::move(envelope));
}

}  // namespace dslide::wire
