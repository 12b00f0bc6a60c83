#include "services/common/trace_settings.h"

namespace dslide {

void AddTraceSettings(ConfigParser& config, TracingSettings& settings) {
  config.AddString("otlp-endpoint", &settings.endpoint,
                   "Collector that gets spans of traced calls by OTLP over HTTP, such as "
                   "http://127.0.0.1:4318; empty: none");
}

}  // namespace dslide
