// absl::Status <-> grpc::Status: equal codes, with the reason word, the pause and the request id as
// google.rpc details (core/wire/status_details.h).

#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

grpc::Status ToGrpcStatus(const absl::Status& status, absl::string_view request_id = "");
// The message names the request where the server did.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace dslide
