// A shard that serves: its runtime, storage, gRPC, admin page and its membership in one object.
// Used by dslide-shard and by the embedded cluster.

#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"
#include "core/system/stage_times.h"
#include "services/common/server/server_runtime.h"
#include "services/shard/durability/durable_gauges.h"
#include "services/shard/durability/state_directory.h"
#include "services/shard/metrics/shard_metrics.h"
#include "services/shard/rpc/shard_service.h"
#include "services/shard/shard_membership.h"
#include "services/shard/shard_readiness.h"
#include "services/shard/shard_runtime.h"
#include "services/shard/shard_server_options.h"

namespace dslide::shard {

// Thread safety: safe from any thread.
class ShardServer {
 public:
  // Errors: those of ServerRuntime::Start; for the data directory those of DataDirError(), by which
  // callers tell them from addresses.
  static absl::StatusOr<std::unique_ptr<ShardServer>> Start(ShardServerOptions options);

  // Drains.
  ~ShardServer();

  ServerRuntime& runtime() { return *runtime_; }
  Sequencer& sequencer() { return shard_->sequencer(); }
  // For callers of this process, until it drains.
  LocalShard& local() { return service_->local(); }
  const Metrics& metrics() const { return *metrics_; }
  const StageTimes& stages() const { return *stages_; }
  // Adds process_* and dslide_build_info to the page: once per process.
  void AddProcessMetrics() { metrics_->AddProcessMetrics(); }
  // Ordinal; -1 before the shard is registered.
  ShardId shard() const { return readiness_.identity().shard; }

  // Blocks until the shard is registered (or, without a coordinator, returns at once).
  // Errors: DeadlineExceeded with the last reason.
  absl::Status WaitUntilReady(absl::Duration timeout) { return readiness_.WaitUntilReady(timeout); }

 private:
  explicit ShardServer(ShardServerOptions options);

  absl::Status OpenPage();
  absl::Status MakeShard();
  absl::Status OpenDirectory(std::unique_ptr<ShardCore>& core);
  absl::Status BeginLog();
  absl::Status StartServing();
  ServerHooks MakeServerHooks();
  void Join();
  StatusPage Status() const;
  ShardCoreOptions Core() { return ResolvedCore(options_, stages_.get(), &loading_); }

  DurableState* durable() { return directory_ == nullptr ? nullptr : directory_->durable(); }

  const ShardServerOptions options_;
  ShardReadiness readiness_;
  // Later ones use earlier ones.
  const std::unique_ptr<StageTimes> stages_;
  LoadProgress loading_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<AdminPage> page_;  // until runtime_ has it
  std::unique_ptr<ShardMetrics> shard_metrics_;
  std::unique_ptr<ShardRuntime> shard_;
  // Null without a data directory, as images_ is; their threads use shard_.
  std::unique_ptr<StateDirectory> directory_;
  std::unique_ptr<CheckpointImages> images_;
  std::unique_ptr<DurableGauges> durable_gauges_;  // null in mode checkpoint
  std::unique_ptr<ShardServiceImpl> service_;
  std::unique_ptr<ServerRuntime> runtime_;
  std::unique_ptr<ShardMembership> membership_;
};

}  // namespace dslide::shard
