#include "client/cli/serve/server_flags.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"

namespace dslide::cli {
namespace {

constexpr int64_t kMostConnections = 1'000'000;

}  // namespace

void AddServerFlags(CliCommand command, ServerFlags& flags, const std::string& callers) {
  ServerOptions& server = flags.server;
  AddOption(command, "--listen", server.listen,
            "Address for gRPC: HOST:PORT (port 0: a free one) or unix:PATH");
  AddOption(command, "--admin", server.admin,
            "Address of the admin page (metrics, health); empty: none");
  AddOption(command, "--tls-cluster", server.tls.cluster,
            "The cluster in the certificates' names dslide://CLUSTER/ROLE");
  AddOption(command, "--authorization", server.tls.authorization,
            absl::StrCat("roles: callers need ", callers,
                         "; none: every certificate of --tls-ca. Empty: "
                         "roles when there is --tls-ca"));
  AddOption(command, "--max-connections", server.max_connections,
            "Connections open at one time; more are closed as soon as they come")
      .Range<int64_t>(1, kMostConnections);
  AddOption(command, "--max-connection-rate", server.max_connection_rate,
            "New connections a second from one address; 0: any number")
      .Range<int64_t>(0, kMostConnections);
  AddOption(command, "--drain-delay", flags.drain_delay,
            "Pause between \"not ready\" and refusing calls");
  AddOption(command, "--drain-timeout", flags.drain_timeout,
            "How long running calls may take at the end");
}

absl::Status ResolveServerFlags(const GlobalOptions& global, const std::string& binary,
                                ServerFlags& flags) {
  flags.server.binary = binary;
  flags.server.insecure = global.insecure;
  flags.server.tls.files = global.tls;
  RETURN_IF_ERROR(ReadDuration("--drain-delay", flags.drain_delay, absl::ZeroDuration(),
                               flags.server.drain_delay));
  return ReadDuration("--drain-timeout", flags.drain_timeout, absl::ZeroDuration(),
                      flags.server.drain_timeout);
}

absl::Status ReadDuration(const char* flag, const std::string& text, absl::Duration least,
                          absl::Duration& value) {
  const absl::StatusOr<absl::Duration> parsed = ParseDuration(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", parsed.status().message()));
  }
  if (*parsed < least) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", text, ": must be at least ", absl::FormatDuration(least)));
  }
  value = *parsed;
  return absl::OkStatus();
}

}  // namespace dslide::cli
