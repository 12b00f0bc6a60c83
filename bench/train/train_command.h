// dslide-bench train: dslide beside the dense baseline, on the same data, in the same run.

#pragma once

#include "core/flags/command.h"

namespace dslide::bench {

// Registers the subcommand; when it is chosen, it runs and sets *exit_code.
void AddTrainCommand(Command app, int* exit_code);

}  // namespace dslide::bench
