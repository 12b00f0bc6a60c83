// What a shard server is told when it is started.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "core/system/stage_times.h"
#include "services/common/server/server_runtime.h"
#include "services/common/server/transport.h"
#include "services/shard/durability/durability.h"
#include "services/shard/rpc/shard_service.h"
#include "services/shard/sequencer/sequencer_options.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct ShardServerOptions {
  // server.listen "" serves in-process channels only.
  ServerOptions server = {};
  // core.parallelism.threads <= 0: all CPUs of the machine. core.memory_bytes <= 0: nine tenths of
  // the memory limit, less the other budgets.
  ShardCoreOptions core = {};
  SequencerOptions queue = {};
  ServiceLimits limits = {};
  // What this shard may take of the machine; <= 0: MemoryLimitBytes().
  int64_t memory_limit_bytes = 0;
  // Where checkpoints are kept; "" for none. The checkpoint "latest" of each model is loaded at the
  // start and written at a clean stop.
  std::string data_dir = {};
  // Another data directory whose checkpoints "latest" are loaded instead; only read
  // (state_directory.h). Works without data_dir, too.
  std::string rows_from = {};
  // False for a directory that is thrown away afterwards: no checkpoint is written at the stop.
  bool write_latest = true;
  // Kept on the volume of the data directory for a full disk (disk_reserve.h); 0: none.
  int64_t disk_reserve_bytes = 0;
  // The log modes need a data directory. Their state lies in it beside the checkpoints, which a
  // start in a log mode loads only when there is no such state yet. A start in mode checkpoint
  // takes the state over into checkpoints "latest" and removes it.
  DurabilityOptions durability = {};
  // Address of the coordinator; "" for a shard on its own, which is ready at once.
  std::string coordinator = {};
  // Address under which clients and the coordinator reach this shard; "" takes server.listen's.
  std::string advertise = {};
  // Wanted ordinal; -1: that of the loaded checkpoints, else any.
  int32_t shard_id = -1;
  // Share of the slots relative to other shards.
  double capacity_weight = 1.0;
  // How the coordinator is reached; null: over the network, with the certificates of
  // server.tls or in plaintext as server.insecure allows.
  ServiceChannelFactory channels = nullptr;
  // Outlives the server.
  const Clock* clock = &SteadyClock();
  // Labels on every series, for several services in one process.
  MetricLabels metric_labels = {};
  // Called once, on another thread, when a newer process has taken this shard's place: this one
  // answers FAILED_PRECONDITION from then on and should be stopped. Also when the command log has
  // failed: it answers UNAVAILABLE. May be null.
  std::function<void()> on_fenced = nullptr;
};

// What Start() would refuse before it touches sockets or disks. Errors: InvalidArgument,
// FailedPrecondition.
absl::Status CheckShardServerOptions(const ShardServerOptions& options);

// The budgets that are 0 as shares of the memory limit, so that all of them, the rows and the
// process itself have room in it: of a small machine as of a small container.
void ResolveBudgets(ShardServerOptions& options);

// options.core with what it leaves to the machine filled in.
ShardCoreOptions ResolvedCore(const ShardServerOptions& options, StageTimes* stages,
                              LoadProgress* loading);

}  // namespace dslide::shard
