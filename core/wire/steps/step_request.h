// A step request from its bytes to its command: one way, for those that arrive and those that a log
// has kept.

#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/protocol/commands.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// Parses a message that lies in pieces. Errors: InvalidArgument BAD_MESSAGE; `out` is then cleared.
absl::Status ParseStepRequest(absl::Span<const absl::string_view> message, v1::StepRequest* out);

// A StepCommand, or a RefusedCommand when the content is wrong.
// Errors: InvalidArgument when the envelope is: there is nobody then to remember the answer for.
absl::StatusOr<Command> DecodeStepMutation(const v1::StepRequest& request);

}  // namespace dslide::wire
