// dslide model retire

#pragma once

#include "client/cli/console/context.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

// group: `dslide model`.
void AddRetireCommand(CliCommand group, Context& context);

}  // namespace dslide::cli
