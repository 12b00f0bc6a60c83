// Error details on the wire: absl::Status <-> the bytes of a serialized google.rpc.Status, which
// gRPC carries in the trailer `grpc-status-details-bin`.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide::wire {

// Messages are cut at this many bytes, at a character's border.
inline constexpr size_t kMaxErrorMessageBytes = 1024;

// The message as it travels: valid UTF-8 of at most kMaxErrorMessageBytes.
std::string ErrorMessageForWire(absl::string_view message);

// Code, message, the reason word (google.rpc.ErrorInfo, domain "dslide"), the pause
// (google.rpc.RetryInfo) and the request id (google.rpc.RequestInfo) of an error; "" for OK and for
// errors that carry none of the three.
std::string EncodeStatusDetails(const absl::Status& status, absl::string_view request_id = "");

// Puts the reason word and the pause found in `details` on `status` and returns the request id; ""
// when there is none. Details of other domains, or bytes that are no google.rpc.Status, are
// ignored: the code and message still stand.
std::string DecodeStatusDetails(absl::string_view details, absl::Status& status);

}  // namespace dslide::wire
