// dslide-bench train: dslide beside the dense baseline, on the same data, in the same run.

#pragma once

#include <CLI/CLI.hpp>

namespace dslide::bench {

// Registers the subcommand; when it is chosen, it runs and sets *exit_code.
void AddTrainCommand(CLI::App& app, int* exit_code);

}  // namespace dslide::bench
