// dslide model export, dslide model import

#pragma once

#include "client/cli/commands/command_line.h"

namespace dslide::cli {

// group: `dslide model`.
void AddModelTransferCommands(CliCommand group, Context& context);

}  // namespace dslide::cli
