// Steps of clients on the wire.

#pragma once

#include <google/protobuf/repeated_field.h>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/protocol/client_step.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

using ClientStepsField = google::protobuf::RepeatedPtrField<v1::ClientStep>;

// Errors: InvalidArgument BAD_CLIENT_ID.
absl::StatusOr<std::vector<ClientStep>> DecodeClientSteps(const ClientStepsField& steps);
// `out` gets them behind those that it has.
void EncodeClientSteps(absl::Span<const ClientStep> steps, ClientStepsField* out);

}  // namespace dslide::wire
