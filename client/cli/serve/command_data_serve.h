// dslide data serve

#pragma once

#include "client/cli/console/context.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

// group: `dslide data`.
void AddDataServeCommand(CliCommand group, Context& context);

}  // namespace dslide::cli
