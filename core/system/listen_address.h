// Addresses to listen on: "host:port" and "unix:path".

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

struct ListenAddress {
  bool is_unix = false;
  std::string path;  // of a unix socket
  std::string host;  // "" is every interface; without the brackets of IPv6
  int port = 0;      // [0, 65535]; 0: a free one

  // "host:port" (IPv6 in brackets) or "unix:path".
  std::string ToString() const;
};

// Whether there can be such a host: a name, or an IPv4 or IPv6 address (without brackets). Asks
// nobody. Errors: InvalidArgument naming the host and what is wrong with it.
absl::Status CheckHostName(absl::string_view host);

// Reads "127.0.0.1:7000", "[::1]:7000", "name:7000", ":7000" or "unix:/run/x.sock".
// Errors: InvalidArgument showing the text and the accepted forms; those of CheckHostName().
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// True when nobody outside this machine can connect: a unix socket, or a host all of whose
// addresses are loopback ones. An unknown host is not.
bool IsLocalOnly(const ListenAddress& address);

// The numeric hosts that the name stands for. Errors: InvalidArgument when it is unknown,
// Unavailable when nobody can say at the moment.
absl::StatusOr<std::vector<std::string>> ResolveHost(const ListenAddress& address);

// Checks that nobody listens there yet, without keeping the address: what gRPC and HTTP libraries
// do on their own is to share a port or to bind only some of a name's addresses, silently. Errors:
// AlreadyExists when it is taken, naming the remedy; Unavailable for another reason; those of
// ResolveHost.
absl::Status CheckListenable(const ListenAddress& address);

// Connects and hangs up. Errors: Unavailable when nobody answers; those of ResolveHost.
absl::Status CheckAnswers(const ListenAddress& address);

}  // namespace dslide
