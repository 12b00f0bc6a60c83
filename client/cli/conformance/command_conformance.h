// dslide conformance

#pragma once

#include "client/cli/console/context.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

void AddConformanceCommand(CliCommand app, Context& context);

}  // namespace dslide::cli
