// A shard that serves: state machine, sequencer, storage, gRPC, admin page and its membership in
// one object. Used by dslide-shard and by the embedded cluster.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/base/stage_times.h"
#include "core/metrics/metrics.h"
#include "services/common/disk_reserve.h"
#include "services/common/server_runtime.h"
#include "services/common/transport.h"
#include "services/shard/client_admission.h"
#include "services/shard/coordinator_link_client.h"
#include "services/shard/durability.h"
#include "services/shard/durable_gauges.h"
#include "services/shard/durable_state.h"
#include "services/shard/sequencer.h"
#include "services/shard/shard_core.h"
#include "services/shard/shard_metrics.h"
#include "services/shard/shard_service.h"
#include "services/shard/storage_checkpoint.h"

namespace dslide::shard {

struct ShardServerOptions {
  // server.listen "" serves in-process channels only.
  ServerOptions server = {};
  // core.parallelism.threads <= 0: all CPUs of the machine. core.memory_bytes <= 0: nine tenths of
  // the machine's memory.
  ShardCoreOptions core = {};
  SequencerOptions queue = {};
  ServiceLimits limits = {};
  // Where checkpoints are kept; "" for none. The checkpoint "latest" of each model is loaded at the
  // start and written at a clean stop.
  std::string data_dir = {};
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

// Thread safety: safe from any thread.
class ShardServer {
 public:
  // Errors: those of ServerRuntime::Start; for the data directory DataLoss, always (with the cause
  // and the remedy), so that callers can tell it from addresses.
  static absl::StatusOr<std::unique_ptr<ShardServer>> Start(ShardServerOptions options);

  // Drains.
  ~ShardServer();

  ServerRuntime& runtime() { return *runtime_; }
  Sequencer& sequencer() { return *sequencer_; }
  const Metrics& metrics() const { return *metrics_; }
  const StageTimes& stages() const { return *stages_; }
  // Adds process_* and dslide_build_info to the page: once per process.
  void AddProcessMetrics() { metrics_->AddProcessMetrics(); }
  // Ordinal; -1 before the shard is registered.
  ShardId shard() const;

  // Blocks until the shard is registered (or, without a coordinator, returns at once).
  // Errors: DeadlineExceeded with the last reason.
  absl::Status WaitUntilReady(absl::Duration timeout);

 private:
  explicit ShardServer(ShardServerOptions options);

  absl::Status LoadState();
  DurableStateOptions DurableOptions();
  absl::Status LoadCheckpoints();
  // Clients, answers and open steps as they were when the last process stopped in good order; then
  // the file that tells it is removed. Errors: DataLoss when it does not belong to the rows.
  absl::Status TakeStopState();
  absl::Status WriteStopState() const;
  absl::Status RestoreLogged();
  // Turns a log mode's state into checkpoints, for mode checkpoint.
  absl::Status TakeOverLogged();
  absl::Status Remember(const ShardModel& model);
  absl::Status BeginLog();
  void OnLogFailed(const absl::Status& why);
  absl::Status KeepReplacedRows(ShardCore& core);
  bool logs() const { return options_.durability.mode != Durability::kCheckpoint; }
  absl::Status OpenCheckpoints();
  absl::Status StartServing();
  void StartLink();
  void OnOwned(ShardId shard, uint64_t generation, bool rollback_pending);
  void OnFenced(const absl::Status& why);
  absl::Status WriteAtStop();
  absl::Status WriteLatest();
  StatusPage Status() const;

  const ShardServerOptions options_;
  // In the order of construction: later ones use earlier ones.
  const std::unique_ptr<StageTimes> stages_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<ShardMetrics> shard_metrics_;
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<DiskReserve> reserve_;  // null without a data directory
  std::unique_ptr<ShardCore> core_;       // the sequencer's thread's, while there is one
  std::unique_ptr<Sequencer> sequencer_;
  std::unique_ptr<ClientAdmission> admission_;  // uses sequencer_
  std::unique_ptr<DurableState> durable_;  // null in mode checkpoint; its thread uses sequencer_
  // Null without a data directory; its thread uses sequencer_, and participant_ both.
  std::unique_ptr<DiskImages> images_;
  std::unique_ptr<CheckpointParticipant> participant_;
  std::unique_ptr<DurableGauges> durable_gauges_;  // null in mode checkpoint
  std::unique_ptr<ShardServiceImpl> service_;
  std::unique_ptr<ServerRuntime> runtime_;
  std::unique_ptr<CoordinatorLink> link_;
  std::vector<ModelSpec> loaded_;  // constant once serving
  int32_t loaded_shard_ = -1;      // constant once serving
  // The rows may be older than what was confirmed: the last process crashed in mode checkpoint.
  bool stale_ = false;  // constant once serving
  // The clients of before are known, with the rows that they changed.
  bool resumed_ = false;  // constant once serving

  mutable absl::Mutex mu_;
  ShardId shard_ ABSL_GUARDED_BY(mu_) = ShardId(-1);
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  std::string address_ ABSL_GUARDED_BY(mu_);  // under which clients reach it
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  bool fenced_ ABSL_GUARDED_BY(mu_) = false;
  std::string trouble_ ABSL_GUARDED_BY(mu_) = "not registered yet";
};

}  // namespace dslide::shard
