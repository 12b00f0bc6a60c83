// ReadRequest <-> ReadCommand, and its answer: operations of steps that change nothing.

#pragma once

#include "absl/status/statusor.h"
#include "core/protocol/commands.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_codec.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// The capability of shards that take ReadRequests.
inline constexpr char kReads[] = "reads";

// Checks as DecodeStep() does. Errors: InvalidArgument with a reason word; BAD_ENUM for an
// operation that changes something.
absl::StatusOr<ReadCommand> DecodeReadRequest(const v1::ReadRequest& request);
// Inverse of it, as EncodeStepRequest().
void EncodeReadRequest(const ReadCommand& command, StepFormat format, v1::ReadRequest* out);

// `reply` is of a ReadCommand and OK.
void EncodeReadResponse(const Reply& reply, ActivationType type, v1::ReadResponse* out);
// Errors: those of DecodeStepResponse().
absl::StatusOr<ReplyBody> DecodeReadResponse(const v1::ReadResponse& response);

}  // namespace dslide::wire
