// The `dslide` command: one subcommand a file, this is what they share.

#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/channel_factory.h"
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

// Adds an option that may also be given as DSLIDE_<NAME>, upper case with underscores.
template <typename T>
CLI::Option* AddOption(CLI::App& app, const std::string& names, T& value, const std::string& help) {
  CLI::Option* option = app.add_option(names, value, help);
  std::string env = "DSLIDE_";
  for (const char c : names.substr(names.rfind("--") + 2)) {
    env += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return option->envname(env);
}

// A subcommand with its help texts. Options may follow those of `app` (-o, --timeout ...).
CLI::App& AddSubcommand(CLI::App& app, const std::string& name, const std::string& help,
                        const std::string& examples);

// Each file registers its own subcommand.
void AddTrainCommand(CLI::App& app, Context& context);
void AddEvalCommand(CLI::App& app, Context& context);
void AddPredictCommand(CLI::App& app, Context& context);
void AddStatusCommand(CLI::App& app, Context& context);
void AddCheckpointCommand(CLI::App& app, Context& context);
void AddDoctorCommand(CLI::App& app, Context& context);
void AddTopCommand(CLI::App& app, Context& context);
void AddLogCommand(CLI::App& app, Context& context);
void AddPlanCommand(CLI::App& app, Context& context);
void AddUpCommand(CLI::App& app, Context& context);
void AddDataCommand(CLI::App& app, Context& context);
void AddCertsCommand(CLI::App& app, Context& context);
void AddHealthCommand(CLI::App& app, Context& context);
void AddBenchCommand(CLI::App& app, Context& context);
void AddVersionCommand(CLI::App& app, Context& context);

// Parses, runs, prints an error to stderr, and returns the exit code. args[0] is the first
// argument, not the program.
int RunCommandLine(const std::vector<std::string>& args);

}  // namespace dslide::cli
