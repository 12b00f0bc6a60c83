// The settings that decide who may connect, equal for all servers.

#pragma once

#include "services/common/config.h"
#include "services/common/server/server_runtime.h"

namespace dslide {

// Binds --insecure, --tls-*, --authorization and --max-connection*, to `options`, which outlives
// the parser.
void AddSecuritySettings(ConfigParser& config, ServerOptions& options);

}  // namespace dslide
