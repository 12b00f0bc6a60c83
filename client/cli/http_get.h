// One HTTP GET over a plain socket: enough to ask an admin page.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/listen_address.h"

namespace dslide::cli {

inline constexpr size_t kMaxHttpAnswerBytes = size_t{1} << 20;

struct HttpAnswer {
  int code = 0;
  std::string body;
};

// What stands in an answer of HTTP/1.x. Errors: InvalidArgument when it is none.
absl::StatusOr<HttpAnswer> ParseHttpAnswer(absl::string_view answer);

// Asks for `path` ("/readyz") and reads the answer to its end. A host that means every interface is
// asked on loopback. Errors: InvalidArgument for an unknown host or an answer that is no HTTP;
// Unavailable when nobody answers; DeadlineExceeded when all of it takes longer than `timeout`;
// ResourceExhausted for an answer above kMaxHttpAnswerBytes.
absl::StatusOr<HttpAnswer> HttpGet(const ListenAddress& address, absl::string_view path,
                                   absl::Duration timeout);

}  // namespace dslide::cli
