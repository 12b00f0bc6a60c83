// The hot path: StepRequest <-> StepCommand.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/protocol/commands.h"
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
// The capabilities of shards that read packed requests, and matrices without their zeros.
inline constexpr char kPackedSteps[] = "packed-steps";
inline constexpr char kSparseMatrices[] = "sparse-matrices";

struct StepFormat {
  ActivationType activations = ActivationType::kF32;  // of the model
  // Ids as varints (sample_ids.h), fingerprints in 16 bits where they fit: only for shards with
  // kPackedSteps.
  bool packed = false;
  // Activations and gradients without their zeros: only for shards with kSparseMatrices.
  bool sparse = false;
};

// Inverse of DecodeStep up to the rounding of activations.
void EncodeStepRequest(const StepCommand& command, StepFormat format, v1::StepRequest* out);

// The operation alone.
void EncodeStepOperation(const StepOp& op, StepFormat format, v1::StepRequest* out);

}  // namespace dslide::wire
