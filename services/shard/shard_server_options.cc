#include "services/shard/shard_server_options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/listen_address.h"

namespace dslide::shard {
namespace {

int64_t MachineMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

// True for "every interface", which is no address to send clients to.
bool IsWildcard(const ListenAddress& address) {
  return !address.is_unix &&
         (address.host.empty() || address.host == "0.0.0.0" || address.host == "::");
}

}  // namespace

absl::Status CheckShardServerOptions(const ShardServerOptions& options) {
  RETURN_IF_ERROR(CheckServerOptions(options.server));
  if (!(options.capacity_weight > 0.0) || !std::isfinite(options.capacity_weight)) {
    return absl::InvalidArgumentError(absl::StrCat("capacity-weight is ", options.capacity_weight,
                                                   ", must be a finite number above 0"));
  }
  if (options.durability.mode != Durability::kCheckpoint && options.data_dir.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("durability ",
                                                   DurabilityName(options.durability.mode),
                                                   " needs a data directory: set data-dir"));
  }
  if (options.coordinator.empty()) return absl::OkStatus();
  if (options.channels == nullptr) {
    RETURN_IF_ERROR(ParseListenAddress(options.coordinator).status());
  }
  if (!options.advertise.empty() || options.server.listen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ListenAddress listen, ParseListenAddress(options.server.listen));
  if (!IsWildcard(listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("listen is ", options.server.listen,
                   ", every interface: set advertise to the HOST:PORT under which clients reach "
                   "this shard"));
}

ShardCoreOptions ResolvedCore(const ShardServerOptions& options, StageTimes* stages) {
  ShardCoreOptions core = options.core;
  core.stages = stages;
  if (core.parallelism.threads <= 0) {
    core.parallelism.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  if (core.memory_bytes <= 0) core.memory_bytes = MachineMemoryBytes() / 10 * 9;
  return core;
}

}  // namespace dslide::shard
