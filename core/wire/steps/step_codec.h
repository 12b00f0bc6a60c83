// The hot path: StepRequest <-> StepCommand and Reply <-> StepResponse.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/protocol/commands.h"
#include "core/wire/array_codec.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// Exact rows asked for in one step.
inline constexpr int64_t kMaxRecallSamples = 16;

// Checks everything that can be checked without knowing the model: names, counts, offsets,
// ascending ids, finite numbers, ranges. Either element type is accepted in a matrix. `envelope`:
// the request's, which is not looked at again.
// Errors: InvalidArgument with a reason word, naming the field.
absl::StatusOr<StepCommand> DecodeStep(const v1::StepRequest& request, Envelope envelope);

// The same of the operation alone: envelope and step numbers are not looked at.
absl::StatusOr<StepOp> DecodeStepOperation(const v1::StepRequest& request);

// The capabilities of shards that keep averages and read them when asked to, and of shards that
// weigh the targets of labels.
inline constexpr char kAveragedRows[] = "averaged-rows";
inline constexpr char kLabelWeights[] = "label-weights";
// The capability of shards that read packed requests.
inline constexpr char kPackedSteps[] = "packed-steps";

struct StepFormat {
  ActivationType activations = ActivationType::kF32;  // of the model
  // Ids as varints (sample_ids.h), fingerprints in 16 bits where they fit: only for shards with
  // kPackedSteps.
  bool packed = false;
};

// Inverse of DecodeStep up to the rounding of activations.
void EncodeStepRequest(const StepCommand& command, StepFormat format, v1::StepRequest* out);

// The operation alone.
void EncodeStepOperation(const StepOp& op, StepFormat format, v1::StepRequest* out);

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
