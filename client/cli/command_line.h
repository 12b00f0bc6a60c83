// The `dslide` command: one subcommand a file, this is what they share.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/channel_factory.h"
#include "core/flags/command_line.h"
#include "core/tls/tls_files.h"

namespace dslide::cli {

// Flags that every subcommand has.
struct GlobalOptions {
  std::string output = "text";  // or "json"
  std::string timeout = "30s";
  bool quiet = false;
  bool insecure = false;
  TlsFiles tls = {};

  bool json() const { return output == "json"; }
  // Errors: InvalidArgument naming the flag.
  absl::StatusOr<absl::Duration> Timeout() const;
  // How a cluster that runs elsewhere is reached.
  ChannelOptions Channels() const { return {.insecure = insecure, .tls = tls}; }
};

// What parsing leaves behind: the subcommand to run.
struct Context {
  GlobalOptions global;
  // Set by the chosen subcommand's callback; returns the exit code or an error.
  std::function<absl::StatusOr<int>()> run;
};

// DSLIDE_MODEL_DIR of "-m,--model-dir".
std::string EnvironmentName(const std::string& names);

// Adds a flag that may also be given as DSLIDE_<NAME>, upper case with underscores.
template <typename T>
Flag AddOption(CliCommand command, const std::string& names, T& value, const std::string& help) {
  return command.Add(names, value, help).Environment(EnvironmentName(names));
}
// Each file registers its own subcommand.
void AddTrainCommand(CliCommand app, Context& context);
void AddTuneCommand(CliCommand app, Context& context);
void AddEvalCommand(CliCommand app, Context& context);
void AddPredictCommand(CliCommand app, Context& context);
void AddStatusCommand(CliCommand app, Context& context);
void AddCheckpointCommand(CliCommand app, Context& context);
void AddDoctorCommand(CliCommand app, Context& context);
void AddTopCommand(CliCommand app, Context& context);
void AddLogCommand(CliCommand app, Context& context);
void AddPlanCommand(CliCommand app, Context& context);
void AddUpCommand(CliCommand app, Context& context);
void AddDataCommand(CliCommand app, Context& context);
void AddCertsCommand(CliCommand app, Context& context);
void AddHealthCommand(CliCommand app, Context& context);
void AddBenchCommand(CliCommand app, Context& context);
void AddVersionCommand(CliCommand app, Context& context);

// Parses, runs, prints an error to stderr, and returns the exit code. args[0] is the first
// argument, not the program.
int RunCommandLine(const std::vector<std::string>& args);

}  // namespace dslide::cli
