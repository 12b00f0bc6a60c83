// One HTTP GET, for the admin pages of our own processes: plain text, no redirects.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

struct HttpAnswer {
  int code = 0;
  std::string body;  // at most 16 MiB
};

// `address` is "host:port"; a host that means every interface ("", 0.0.0.0, ::) is asked on
// loopback. Any code is an answer. `timeout` bounds the wait for the answer.
//
// Errors: InvalidArgument for a malformed address; Unavailable, naming it, when nobody answers or
// the answer is longer than allowed.
absl::StatusOr<HttpAnswer> HttpGetPage(const std::string& address, const std::string& path,
                                       absl::Duration timeout);

}  // namespace dslide
