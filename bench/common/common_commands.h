// dslide-bench data and dslide-bench machine: what benchmarks in other languages ask this program.

#pragma once

#include "core/flags/command_line.h"

namespace dslide::bench {

// Register the subcommands; when one is chosen, it runs and sets *exit_code.
// data: makes data of a shape and prints {"train", "eval"}.
void AddDataCommand(CliCommand app, int* exit_code);
// machine: prints DescribeMachine().
void AddMachineCommand(CliCommand app, int* exit_code);

}  // namespace dslide::bench
