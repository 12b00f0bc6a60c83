// The id by which one call is found in the logs of both its sides.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide::wire {

// The metadata key that carries it.
inline constexpr char kRequestIdKey[] = "x-request-id";

// Whether it can stand in a header and be one word of a log line: 1 to 64 visible ASCII characters.
bool IsRequestId(absl::string_view id);

// `id` where it is one, else a new one of 16 hexadecimal digits, which differs from those of other
// processes. Thread safety: safe from any thread.
std::string RequestIdOrNew(absl::string_view id);

// The error with " (request <id>)" behind its message, for people; all else as it was. `error` is
// not OK.
absl::Status NameRequest(const absl::Status& error, absl::string_view id);

}  // namespace dslide::wire
