// What the command line may know of a shard's command log: a door of its own to the services.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace dslide {

struct LogInspection {
  std::string path;
  uint64_t first = 0;  // 0: no records
  uint64_t last = 0;
  int64_t records = 0;
  int64_t bytes = 0;
  uint64_t high_water = 0;  // records up to this one had been made durable
  // The end was torn off by a crash; a start would cut it off.
  bool torn = false;
  std::map<std::string, int64_t> kinds;  // records by kind
};

// Reads the log in a shard's data directory, or in its command_log, and changes nothing.
// Errors: NotFound when there is none; FailedPrecondition while a shard uses the directory;
// DataLoss naming the damage; Unavailable with the system's reason.
absl::StatusOr<LogInspection> InspectCommandLog(const std::string& path);

}  // namespace dslide
