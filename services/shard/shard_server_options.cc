#include "services/shard/shard_server_options.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/listen_address.h"
#include "core/system/process/memory_limit.h"

namespace dslide::shard {
namespace {

constexpr int64_t kSmallestBudget = 64 << 10;

// A budget: this part of the memory limit, but no more than `most`.
struct Share {
  int64_t most;
  int64_t part;
};

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
  for (const int64_t bytes : {options.core.context_bytes, options.core.clients.total_reply_bytes,
                              options.queue.queue_bytes, options.limits.bulk_bytes}) {
    if (bytes == 0 || bytes >= kSmallestBudget) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a budget of ", bytes, " bytes holds no request: give at least ",
                     kSmallestBudget, ", or 0 for a share of the memory limit"));
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

void ResolveBudgets(ShardServerOptions& options) {
  const int64_t limit =
      options.memory_limit_bytes > 0 ? options.memory_limit_bytes : MemoryLimitBytes();
  const std::pair<int64_t*, Share> shares[] = {
      {&options.core.context_bytes, {int64_t{512} << 20, 8}},
      {&options.core.clients.total_reply_bytes, {int64_t{256} << 20, 16}},
      {&options.queue.queue_bytes, {int64_t{128} << 20, 32}},
      {&options.limits.bulk_bytes, {int64_t{1} << 30, 8}}};
  int64_t rows = limit / 10 * 9;
  for (const auto& [bytes, share] : shares) {
    if (*bytes <= 0) *bytes = std::max(kSmallestBudget, std::min(share.most, limit / share.part));
    rows -= *bytes;
  }
  options.limits.scatter_bytes = std::min(options.limits.scatter_bytes, options.limits.bulk_bytes);
  options.limits.spare_bulk_bytes =
      std::min(options.limits.spare_bulk_bytes, options.limits.bulk_bytes / 8);
  // Budgets that somebody chose may leave nothing: rows get their part all the same.
  if (options.core.memory_bytes <= 0) options.core.memory_bytes = std::max(rows, limit / 4);
}

ShardCoreOptions ResolvedCore(const ShardServerOptions& options, StageTimes* stages,
                              LoadProgress* loading) {
  ShardCoreOptions core = options.core;
  core.stages = stages;
  core.loading = loading;
  if (core.parallelism.threads <= 0) {
    core.parallelism.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  return core;
}

}  // namespace dslide::shard
