// The settings of the log, equal for all servers.

#pragma once

#include <string>

#include "services/common/config.h"

namespace dslide {

struct LogSettings {
  std::string level = "info";
  std::string format = "text";
};

// Binds --log-level and --log-format to `settings`, which outlives the parser.
void AddLogSettings(ConfigParser& config, LogSettings& settings);

// Once, before threads start. `settings` are checked already.
void ApplyLogSettings(const LogSettings& settings);

}  // namespace dslide
