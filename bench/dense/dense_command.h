// dslide-bench dense: the dense baseline alone.

#pragma once

#include "core/flags/command_line.h"

namespace dslide::bench {

// Registers the subcommand; when it is chosen, it runs and sets *exit_code.
void AddDenseCommand(CliCommand app, int* exit_code);

}  // namespace dslide::bench
