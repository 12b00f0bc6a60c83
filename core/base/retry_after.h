// How long a caller should pause, attached to a status: google.rpc.RetryInfo or
// StepError.retry_after_ms on the wire.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

// ResourceExhausted with a reason word (reason.h) and the pause after which the same request may be
// sent again. Pauses below a millisecond count as one.
absl::Status OverloadStatus(absl::string_view reason, absl::string_view message,
                            absl::Duration retry_after);

// The pause in milliseconds; 0 when the status carries none.
int64_t RetryAfterMs(const absl::Status& status);

// Sets or replaces the pause. No effect on OK.
void SetRetryAfterMs(absl::Status& status, int64_t retry_after_ms);

}  // namespace dslide
