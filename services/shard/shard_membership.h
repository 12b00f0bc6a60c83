// The shard's place in its cluster: who it is, whether clients may come, and when it is over.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/spec/model_spec.h"
#include "services/common/server/server_runtime.h"
#include "services/shard/coordinator_link_client.h"
#include "services/shard/metrics/shard_metrics.h"
#include "services/shard/rpc/shard_service.h"
#include "services/shard/shard_readiness.h"
#include "services/shard/shard_runtime.h"
#include "services/shard/shard_server_options.h"

namespace dslide::shard {

// What was loaded from the data directory.
struct LoadedRows {
  int32_t shard = -1;             // whose they are; -1: nobody's
  std::vector<ModelSpec> models;  // none when the rows may be old
};

// What a membership works with. Everything outlives it.
struct ShardMembershipParts {
  const ShardServerOptions& options;
  ServerRuntime& runtime;
  ShardRuntime& shard;
  ShardServiceImpl& service;
  ShardMetrics& metrics;
  ShardReadiness& readiness;
};

// Thread safety: Stop() from any thread.
class ShardMembership {
 public:
  // Registers with the coordinator in the background. Without one the shard is ready at once.
  ShardMembership(ShardMembershipParts parts, LoadedRows loaded);

  void Stop();

 private:
  CoordinatorLinkHooks MakeHooks();
  void OnOwned(ShardId shard, uint64_t generation, bool rollback_pending);
  void OnFenced(const absl::Status& why);
  std::vector<ModelSpec> ModelsHeld();
  std::string AddressForClients() const;

  const ShardMembershipParts parts_;
  const int32_t loaded_shard_;
  std::unique_ptr<CoordinatorLink> link_;  // null without a coordinator
};

}  // namespace dslide::shard
