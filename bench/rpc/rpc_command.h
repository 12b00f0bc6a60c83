// dslide bench rpc: bulk rows between one client and one shard, beside what the link could carry.

#pragma once

#include "core/flags/command_line.h"

namespace dslide::bench {

// Adds the subcommand; when it is chosen, parsing runs it and sets `exit_code`.
void AddRpcCommand(CliCommand app, int* exit_code);

}  // namespace dslide::bench
