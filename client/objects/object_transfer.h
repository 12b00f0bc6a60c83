// One HTTP request whose answer may be larger than memory.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

struct TransferRequest {
  std::string url;
  std::vector<std::string> headers = {};  // "Name: value"
  std::optional<std::string> post = {};   // the body of a POST; else it is a GET
  int64_t first_byte = 0;                 // asks for the bytes from here to the end
  std::string aws_sigv4 = {};             // as CURLOPT_AWS_SIGV4; "": not signed
  std::string access_key = {};
  std::string secret_key = {};
  std::string ca_file = {};        // of trusted authorities; "": the system's
  bool follows_redirects = false;  // never from https to http
  bool uses_netrc = false;
  // Without a connection, or slower than 1 KiB/s, for so long: the request fails.
  absl::Duration patience = absl::Seconds(10);
};

struct TransferAnswer {
  int code = 0;                                // of HTTP; 0: there was none
  std::map<std::string, std::string> headers;  // by lower-case name
  std::string body;      // of answers other than 200 and 206: their first 64 KiB
  std::string failure;   // why the answer did not come, or not whole; "": it did
  bool may_heal = true;  // whether the same request may succeed later where this one failed
  absl::Status refused;  // what the receiver said; the transfer ended then

  // "" when there is none.
  absl::string_view header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? absl::string_view() : found->second;
  }
};

// Keeps connections open between requests. Not thread-safe.
class ObjectTransfer {
 public:
  // Is given the bytes of answers 200 and 206 as they come, with what came before them.
  using Receive = std::function<absl::Status(const TransferAnswer& head, absl::string_view bytes)>;

  // stop_requested: asked a few times a second; true ends a transfer. May be empty.
  explicit ObjectTransfer(std::function<bool()> stop_requested);
  ~ObjectTransfer();
  ObjectTransfer(const ObjectTransfer&) = delete;
  ObjectTransfer& operator=(const ObjectTransfer&) = delete;

  TransferAnswer Perform(const TransferRequest& request, const Receive& receive);
  // The same for a small answer, whose body is `body` whatever its code.
  TransferAnswer Perform(const TransferRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
