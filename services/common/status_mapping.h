// absl::Status <-> grpc::Status: equal codes, with the reason word and the pause as google.rpc
// details (core/wire/status_details.h).

#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace dslide {

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace dslide
