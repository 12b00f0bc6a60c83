// The settings of traces, equal for all servers.

#pragma once

#include "services/common/config.h"
#include "services/common/trace/otlp_exporter.h"

namespace dslide {

// Binds --otlp-endpoint to `settings`, which outlives the parser. Servers begin no traces.
void AddTraceSettings(ConfigParser& config, TracingSettings& settings);

}  // namespace dslide
