// How many bytes the messages of a step take, found by encoding them.

#pragma once

#include <cstdint>

#include "core/protocol/commands.h"
#include "core/wire/steps/step_codec.h"

namespace dslide::wire {

// Serialized size plus gRPC's length prefix of 5 bytes, as clients count their traffic; HTTP/2
// frames and TCP are not counted.
int64_t StepRequestBytes(const StepCommand& command, StepFormat format);
// As the answer to a request of that sequence. `type`: what the model's activations travel in.
int64_t StepResponseBytes(uint64_t sequence, const Reply& reply, ActivationType type);

}  // namespace dslide::wire
