// dslide report

#pragma once

#include "client/cli/console/context.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

void AddReportCommand(CliCommand app, Context& context);

}  // namespace dslide::cli
