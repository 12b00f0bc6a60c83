// dslide-bench serve: what a prediction of one thread costs, and what hashing finds.

#pragma once

#include "core/flags/command_line.h"

namespace dslide::bench {

// Registers the subcommand; when it is chosen, it runs and sets *exit_code.
void AddServeCommand(CliCommand app, int* exit_code);

}  // namespace dslide::bench
