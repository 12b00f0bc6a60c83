// Who asks, and which of its mutations this is: RequestEnvelope <-> Envelope.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/protocol/commands.h"
#include "dslide/v1/common.pb.h"

namespace dslide::wire {

// Errors: InvalidArgument naming the field when a name is not [a-z0-9-]{1,64}, the client id not 16
// bytes, or not 1 <= first_incomplete <= sequence.
absl::StatusOr<Envelope> DecodeEnvelope(const v1::RequestEnvelope& envelope);
void EncodeEnvelope(const Envelope& envelope, v1::RequestEnvelope* out);

// A job's, model's, table's or checkpoint's name: [a-z0-9-]{1,64}.
absl::Status CheckName(absl::string_view field, absl::string_view name);
absl::StatusOr<ClientId> DecodeClientId(absl::string_view field, const std::string& bytes);
std::string EncodeClientId(const ClientId& client);

}  // namespace dslide::wire
