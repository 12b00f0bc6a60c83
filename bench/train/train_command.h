// dslide-bench train: dslide beside the dense baseline, on the same data, in the same run.

#pragma once

#include "core/flags/command_line.h"

namespace dslide::bench {

// Registers the subcommand; when it is chosen, it runs and sets *exit_code.
void AddTrainCommand(CliCommand app, int* exit_code);

}  // namespace dslide::bench
