// The `dslide` command: one subcommand a file, this is what they share.

#pragma once

#include <string>
#include <vector>

#include "client/cli/console/context.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

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
