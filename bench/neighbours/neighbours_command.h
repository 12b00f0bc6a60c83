// dslide-bench neighbours: searches of the memory's index beside a plain scan, in the same run.

#pragma once

#include "core/flags/command_line.h"

namespace dslide::bench {

// Registers the subcommand; when it is chosen, it runs and sets *exit_code.
void AddNeighboursCommand(CliCommand app, int* exit_code);

}  // namespace dslide::bench
