// dslide bench rpc: bulk rows between one client and one shard, beside what the link could carry.

#pragma once

#include "core/flags/command.h"

namespace dslide::bench {

// Adds the subcommand; when it is chosen, parsing runs it and sets `exit_code`.
void AddRpcCommand(Command app, int* exit_code);

}  // namespace dslide::bench
