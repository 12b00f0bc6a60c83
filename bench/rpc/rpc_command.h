// dslide bench rpc: bulk rows between one client and one shard, beside what the link could carry.

#pragma once

#include <CLI/CLI.hpp>

namespace dslide::bench {

// Adds the subcommand; when it is chosen, parsing runs it and sets `exit_code`.
void AddRpcCommand(CLI::App& app, int* exit_code);

}  // namespace dslide::bench
