// How much of what a shard has confirmed may be lost, chosen by name. docs/operate/reliability.md
// says what each mode promises.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide::shard {

enum class Durability {
  kCheckpoint,   // confirmed: applied in memory
  kLogPeriodic,  // ... and written to the command log, which is synced from time to time
  kLog,          // ... and on the disk
};

struct DurabilityOptions {
  Durability mode = Durability::kCheckpoint;
  // log-periodic: a loss of power loses what was confirmed within this time, and one sync.
  absl::Duration sync_interval = absl::Seconds(1);
  // An image of the whole state is written when the log has grown by so much. More of it means
  // fewer pauses for images, a longer start, and twice as much disk.
  int64_t image_every_bytes = int64_t{1} << 30;
};

// "checkpoint", "log-periodic", "log".
std::string DurabilityName(Durability mode);
// Errors: InvalidArgument listing the names.
absl::StatusOr<Durability> ParseDurability(absl::string_view name);

}  // namespace dslide::shard
