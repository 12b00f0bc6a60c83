#include "services/common/log_settings.h"

#include <iterator>

#include "core/system/log.h"

namespace dslide {

void AddLogSettings(ConfigParser& config, LogSettings& settings) {
  config.AddWord("log-level", &settings.level,
                 {std::begin(kLogLevelWords), std::end(kLogLevelWords)},
                 "Least grave lines of the log on stderr");
  config.AddWord("log-format", &settings.format,
                 {std::begin(kLogFormatWords), std::end(kLogFormatWords)},
                 "Form of the log: text for people, or json, one object a line");
}

void ApplyLogSettings(const LogSettings& settings) {
  SetLog(settings.level, settings.format).IgnoreError();
}

}  // namespace dslide
