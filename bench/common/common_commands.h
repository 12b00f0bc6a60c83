// dslide-bench data and dslide-bench machine: what benchmarks in other languages ask this program.

#pragma once

#include <CLI/CLI.hpp>

namespace dslide::bench {

// Register the subcommands; when one is chosen, it runs and sets *exit_code.
// data: makes data of a shape and prints {"train", "eval"}.
void AddDataCommand(CLI::App& app, int* exit_code);
// machine: prints DescribeMachine().
void AddMachineCommand(CLI::App& app, int* exit_code);

}  // namespace dslide::bench
