// Flags that every subcommand of `dslide` has, and how flags get their names in the environment.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/channel_factory.h"
#include "core/flags/command_line.h"
#include "core/net/tls/tls_files.h"
#include "services/common/trace/otlp_exporter.h"

namespace dslide::cli {

struct GlobalOptions {
  std::string output = "text";  // or "json"
  std::string timeout = "30s";
  bool quiet = false;
  std::string log_level = "warning";
  std::string log_format = "text";
  bool insecure = false;
  TlsFiles tls = {};
  TracingSettings tracing = {.endpoint = "", .sample = 1};

  bool json() const { return output == "json"; }
  // Errors: InvalidArgument naming the flag.
  absl::StatusOr<absl::Duration> Timeout() const;
  // How a cluster that runs elsewhere is reached.
  ChannelOptions Channels() const { return {.insecure = insecure, .tls = tls}; }
};

// DSLIDE_MODEL_DIR of "-m,--model-dir".
std::string EnvironmentName(const std::string& names);

// Adds a flag that may also be given as DSLIDE_<NAME>, upper case with underscores. Not for a flag
// whose name means something else in another command: a variable belongs to one flag.
template <typename T>
Flag AddOption(CliCommand command, const std::string& names, T& value, const std::string& help) {
  return command.Add(names, value, help).Environment(EnvironmentName(names));
}

// The same for a flag without a value: DSLIDE_<NAME> is true or false.
inline Flag AddSwitch(CliCommand command, const std::string& names, bool& value,
                      const std::string& help) {
  return command.AddSwitch(names, value, help).Environment(EnvironmentName(names));
}

// --threads, [0, 1024]; 0: all of the machine.
Flag AddThreads(CliCommand command, int64_t& threads, const std::string& help);

void AddGlobalOptions(CliCommand app, GlobalOptions& global);

}  // namespace dslide::cli
