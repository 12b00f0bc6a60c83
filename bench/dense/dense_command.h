// dslide-bench dense: the dense baseline alone.

#pragma once

#include <CLI/CLI.hpp>

namespace dslide::bench {

// Registers the subcommand; when it is chosen, it runs and sets *exit_code.
void AddDenseCommand(CLI::App& app, int* exit_code);

}  // namespace dslide::bench
