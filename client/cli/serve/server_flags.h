// Flags of the servers that are subcommands of `dslide`.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/console/global_options.h"
#include "core/flags/command_line.h"
#include "services/common/server/server_runtime.h"

namespace dslide::cli {

struct ServerFlags {
  ServerOptions server = {};
  std::string drain_delay = "0s";
  std::string drain_timeout = "5s";
};

// callers: the roles that may call it, for --help.
void AddServerFlags(CliCommand command, ServerFlags& flags, const std::string& callers);

// Fills flags.server. binary: "dslide serve". Errors: InvalidArgument naming the flag.
absl::Status ResolveServerFlags(const GlobalOptions& global, const std::string& binary,
                                ServerFlags& flags);

// Errors: InvalidArgument naming the flag, also for less than `least`.
absl::Status ReadDuration(const char* flag, const std::string& text, absl::Duration least,
                          absl::Duration& value);

}  // namespace dslide::cli
