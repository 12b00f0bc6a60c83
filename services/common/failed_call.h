// The end of a call that failed: one line in the log, and the same request id in both.

#pragma once

#include <grpcpp/support/status.h>
#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// What a caller sends beside its request.
using CallMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// What the caller sent as x-request-id, or a new id when that is no id (core/wire/request_id.h).
std::string RequestIdOf(const CallMetadata& metadata);

// Logs `error`, an answer to a request of `method`: as an error when it is this server's fault
// (INTERNAL, DATA_LOSS, UNKNOWN), on the level of details when the caller has gone, else as info.
// So that callers who do nothing right cannot fill a disk, there is one line a second on average,
// apart from this server's own faults; `left_out` of the next one counts those between. Thread
// safety: safe from any thread.
void LogFailure(absl::string_view method, absl::string_view request_id, const absl::Status& error);

// LogFailure(), and the status for the caller, with the id in its details.
grpc::Status EndFailedCall(absl::string_view method, absl::string_view request_id,
                           const absl::Status& error);

}  // namespace dslide
