// dslide data import

#pragma once

#include "client/cli/commands/command_line.h"

namespace dslide::cli {

void AddImportCommand(CliCommand data, Context& context);

}  // namespace dslide::cli
