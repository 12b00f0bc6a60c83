// dslide data debian-packages | debian-files | debian-next

#pragma once

#include "client/cli/commands/command_line.h"

namespace dslide::cli {

void AddDebianCommands(CliCommand data, Context& context);

}  // namespace dslide::cli
