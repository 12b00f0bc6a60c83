// The hot path: Reply <-> StepResponse.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/protocol/replies.h"
#include "dslide/v1/common.pb.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// The answer to the request with that sequence: the reply's result, or its status as a StepError.
// A reply of another command than a step operation is a bug and answered with INTERNAL.
void EncodeStepResponse(uint64_t sequence, uint64_t generation, const Reply& reply,
                        ActivationType type, v1::StepResponse* out);

struct StepAnswer {
  uint64_t sequence = 0;
  uint64_t generation = 0;
  Reply reply;  // its status carries reason word and pause
};

// Errors: Internal when the answer contradicts itself. An error that the shard answered is no error
// of this function but the reply's status.
absl::StatusOr<StepAnswer> DecodeStepResponse(const v1::StepResponse& response);

// An error as it travels inside a StepResponse, and back. `status` is not OK.
void EncodeStepError(const absl::Status& status, v1::StepError* out);
absl::Status DecodeStepError(const v1::StepError& error);

}  // namespace dslide::wire
