// grpc::Status -> absl::Status, with the reason word and the pause of our servers.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace dslide {

// `peer` ("shard 2 at 10.0.0.7:7010") and `call` begin the message of an error; the request id,
// where the server took another one that one, ends it. CANCELLED is UNAVAILABLE: this side takes no
// call back whose answer it wants, so the server did; it stops, and its successor may be asked.
absl::Status FromGrpc(const grpc::Status& status, absl::string_view peer, absl::string_view call,
                      absl::string_view request_id);

// Whether gRPC itself made the error since no server answered: it could not connect, or the
// deadline passed. By the words of its texts, since the codes are also those of answers.
bool NobodyAnswered(const grpc::Status& status);

// Whether somebody listens there, but the two sides do not agree on who they are.
bool HandshakeFailed(const grpc::Status& status);

// Sets the deadline, the client's version and the request id, of RequestIdOrNew().
void PrepareContext(grpc::ClientContext& context, absl::Time deadline,
                    const std::string& request_id);

}  // namespace dslide
