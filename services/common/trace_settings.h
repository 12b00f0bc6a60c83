// The settings of traces, equal for all servers.

#pragma once

#include "core/net/otlp/otlp_exporter.h"
#include "services/common/config.h"

namespace dslide {

// Binds --otlp-endpoint to `settings`, which outlives the parser. Servers begin no traces.
void AddTraceSettings(ConfigParser& config, TracingSettings& settings);

}  // namespace dslide
