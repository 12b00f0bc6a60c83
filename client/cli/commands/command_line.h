// The `dslide` command: one subcommand a file, this is what they share.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

// What parsing leaves behind: the subcommand to run.
struct Context {
  GlobalOptions global;
  // Set by the chosen subcommand's callback; returns the exit code or an error.
  std::function<absl::StatusOr<int>()> run;
};

// Each file registers its own subcommand.
void AddTrainCommand(CliCommand app, Context& context);
void AddTuneCommand(CliCommand app, Context& context);
void AddEvalCommand(CliCommand app, Context& context);
void AddPredictCommand(CliCommand app, Context& context);
void AddServeCommand(CliCommand app, Context& context);
void AddAppendCommand(CliCommand app, Context& context);
void AddStatusCommand(CliCommand app, Context& context);
void AddJobCommand(CliCommand app, Context& context);
void AddModelCommand(CliCommand app, Context& context);
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
