// dslide-bench data and dslide-bench machine: what benchmarks in other languages ask this program.

#pragma once

#include "core/flags/command.h"

namespace dslide::bench {

// Register the subcommands; when one is chosen, it runs and sets *exit_code.
// data: makes data of a shape and prints {"train", "eval"}.
void AddDataCommand(Command app, int* exit_code);
// machine: prints DescribeMachine().
void AddMachineCommand(Command app, int* exit_code);

}  // namespace dslide::bench
