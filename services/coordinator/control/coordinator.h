// The coordinator without gRPC: the state machines behind one lock, their store, and the calls to
// shards that follow from them.

#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "services/coordinator/checkpoints/checkpoint_schedule.h"
#include "services/coordinator/checkpoints/cluster_checkpoints.h"
#include "services/coordinator/control/cluster_status.h"
#include "services/coordinator/jobs/job.h"
#include "services/coordinator/membership/membership.h"
#include "services/coordinator/membership/shard_admin.h"
#include "services/coordinator/models/catalog.h"
#include "services/coordinator/models/catalog_store.h"

namespace dslide::coordinator {

struct CoordinatorOptions {
  MembershipOptions membership = {};
  JobTiming timing = {};
  // When cluster checkpoints are taken without being asked for.
  CheckpointSchedule schedule = {};
  ClusterCheckpointOptions checkpoints = {};
  // How often committed ones are read and compared; zero: never.
  absl::Duration scrub_interval = {};
  // Leases of this process are numbered from here: higher than those of an earlier one, so that a
  // trainer's late report is never taken for another's.
  LeaseId first_lease = 1;
  // Jobs kept; the oldest finished ones are forgotten beyond it.
  int64_t max_jobs = 1000;
};

// Thread safety: safe from any thread. Calls that ask shards block for `timeout` at most, those
// with a WorkProgress until it says that they are to end; the others are quick.
class Coordinator {
 public:
  // `clock` and `metrics` outlive it. `store` and `manifests` are null for a coordinator without
  // memory.
  // Errors: those of CatalogStore::Load and Membership::Restore.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(
      const CoordinatorOptions& options, const Clock* clock, std::unique_ptr<ShardAdmin> shards,
      std::unique_ptr<CatalogStore> store, std::unique_ptr<ManifestStore> manifests,
      Metrics* metrics);
  // Stops first.
  ~Coordinator();

  const CoordinatorOptions& options() const { return options_; }

  // Ends calls to shards and refuses new ones. Repeating it is fine.
  void Stop();

  // --- Membership (membership.h says what and which errors).
  // `models` are those the shard has already. Unknown ones are adopted; a different one of a known
  // name is FailedPrecondition MODEL_DIFFERS. The models it lacks are created on it in the
  // background.
  absl::StatusOr<Ownership> RegisterShard(const ShardRegistration& request,
                                          const std::vector<ModelSpec>& models);
  absl::StatusOr<HeartbeatAnswer> Heartbeat(ShardId shard, uint64_t generation,
                                            int64_t memory_bytes, int64_t applied_commands);
  absl::Status DeregisterShard(ShardId shard, uint64_t generation);
  absl::StatusOr<ClusterMap> Map() const;

  // --- Models.
  // Creates it on every shard and then remembers it; true when it is new. When a shard fails, what
  // was created by this call is dropped again as far as possible, and nothing is remembered.
  // Errors: Unavailable NOT_ALL_SHARDS; MODEL_DIFFERS; those of the shards, combined.
  absl::StatusOr<bool> RegisterModel(const ModelSpec& spec, absl::Duration timeout);
  std::vector<ModelSpec> ListModels() const;
  // Drops it from every shard, with its jobs, and forgets it. A model that only some shards have (a
  // registration that failed half-way) is dropped too. Errors: NotFound when nobody had it.
  absl::Status UnregisterModel(const std::string& model, absl::Duration timeout);

  // --- Checkpoints on all shards; errors name those that failed. Once one is asked, they go on.
  // Whether there may be one. Errors: InvalidArgument BAD_NAME; NotFound UNKNOWN_MODEL.
  absl::Status CheckCheckpoint(const std::string& model, const std::string& checkpoint) const;
  absl::StatusOr<CheckpointSize> CreateCheckpoint(const std::string& model,
                                                  const std::string& checkpoint,
                                                  absl::Duration timeout, WorkProgress& progress);
  // Returns the rows restored. After an error some shards may have restored: repeat it.
  absl::StatusOr<int64_t> RestoreCheckpoint(const std::string& model, const std::string& checkpoint,
                                            absl::Duration timeout, WorkProgress& progress);

  // --- Cluster checkpoints (cluster_checkpoints.h). All are FailedPrecondition NO_DATA_DIR without
  // manifests; one is Aborted while another is taken or restored.
  absl::StatusOr<Manifest> TakeClusterCheckpoint(WorkProgress& progress);
  absl::StatusOr<std::vector<Manifest>> ListClusterCheckpoints();
  // checkpoint_id: 0 for the newest. Others are taken while it is verified.
  absl::StatusOr<Manifest> VerifyClusterCheckpoint(uint64_t checkpoint_id, WorkProgress& progress);
  absl::StatusOr<Manifest> RestoreClusterCheckpoint(uint64_t checkpoint_id, WorkProgress& progress);
  absl::StatusOr<std::vector<uint64_t>> PruneClusterCheckpoints(int64_t keep);
  absl::StatusOr<ClusterCheckpoints::Choice> NewestWholeCheckpoint();
  absl::StatusOr<std::string> ClusterCheckpointText(uint64_t checkpoint_id);
  absl::StatusOr<Manifest> AdoptClusterCheckpoint(const std::string& text, WorkProgress& progress);

  // --- Jobs (job.h). Unknown ones are NotFound UNKNOWN_JOB.
  // True when the job is new. Errors: InvalidArgument JOB_DIFFERS naming the field; UNKNOWN_MODEL.
  absl::StatusOr<bool> RegisterJob(const JobSpec& spec, const ClientId& client);
  absl::StatusOr<Work> AcquireWork(const std::string& name, const WorkRequest& request);
  absl::Status LeaveJob(const std::string& name, const ClientId& client);

  ClusterStatus Status() const;

 private:
  Coordinator(const CoordinatorOptions& options, const Clock* clock,
              std::unique_ptr<ShardAdmin> shards, std::unique_ptr<CatalogStore> store,
              std::unique_ptr<ManifestStore> manifests, Metrics* metrics);
  absl::Status LoadStore();
  void AddMetrics();
  void AddCheckpointMetrics();
  void AddSlotMetrics();
  double SlotsOf(ShardId shard) const;
  double CountShards(ShardHealth health) const;
  double CountJobs(bool finished) const;
  double SumJobCounters(int64_t JobCounters::*counter) const;

  absl::StatusOr<Job*> FindJob(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeRoomForJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Keeps a forgotten job's counts, so that the metrics never go back.
  void ForgetJob(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The command that creates a model on one shard of the cluster.
  static absl::StatusOr<CreateModelCommand> CommandFor(const ModelSpec& spec, const ClusterMap& map,
                                                       ShardId shard);
  bool LacksModels(const std::vector<ModelSpec>& models) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::StatusOr<ClusterMap> FullMap() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::StatusOr<ClusterMap> MapForCheckpoints() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(cut_mu_);
  // Also while shards may show different instants.
  absl::StatusOr<ClusterMap> MapForRestore() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(cut_mu_);
  void CaptureForCheckpoint(Manifest& manifest);
  absl::Status CheckNoRowsMissing() const ABSL_LOCKS_EXCLUDED(mu_);
  // From here on clients get no map; also after EndRestore() as long as shards may differ.
  absl::StatusOr<ClusterMap> BeginRestore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cut_mu_);
  absl::Status EndRestore(bool done);  // clears the mark after success
  // Makes models and jobs those of the manifest.
  absl::Status AdoptManifest(const Manifest& manifest);
  // Background threads: take cluster checkpoints by the schedule; verify the committed ones.
  void ScheduleLoop();
  int64_t AppliedCommands() const;
  void ScrubLoop();
  bool Scrub();  // true when every one could be looked at
  void Judge(uint64_t checkpoint_id, const absl::Status& verified)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cut_mu_);
  void CountDamaged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cut_mu_);

  // Another one: creates known models on shards that have (re-)registered.
  void SyncLoop();
  bool SyncWanted() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Takes the cluster back if a shard needs that, or if somebody has begun it.
  absl::Status RollbackIfRequested() ABSL_LOCKS_EXCLUDED(mu_);
  // OK when the shard has all models, or is not the one that registered any more.
  absl::Status SyncShard(ShardId shard, uint64_t generation) ABSL_LOCKS_EXCLUDED(mu_);

  const CoordinatorOptions options_;               // constant after construction
  const Clock* const clock_;                       // self-synchronised
  const std::unique_ptr<ShardAdmin> shards_;       // self-synchronised
  Metrics* const metrics_;                         // self-synchronised
  Counter recreated_models_, failed_checkpoints_;  // self-synchronised

  absl::Mutex models_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // one change of models at a time, with calls
  absl::Mutex checkpoint_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // one checkpoint or restore at a time
  absl::Mutex cut_mu_ ABSL_ACQUIRED_BEFORE(models_mu_);  // the same of the whole cluster
  RestoreMark* const restore_mark_;                      // of cuts_; self-synchronised; null: none
  const std::unique_ptr<ClusterCheckpoints> cuts_ ABSL_PT_GUARDED_BY(cut_mu_);  // null: none

  mutable absl::Mutex mu_;
  const std::unique_ptr<CatalogStore> store_ ABSL_PT_GUARDED_BY(mu_);
  Membership membership_ ABSL_GUARDED_BY(mu_);
  Catalog catalog_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::unique_ptr<Job>> jobs_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> job_order_ ABSL_GUARDED_BY(mu_);  // by age
  JobCounters forgotten_ ABSL_GUARDED_BY(mu_);
  std::map<ShardId, uint64_t> to_sync_ ABSL_GUARDED_BY(mu_);  // shard -> generation
  std::set<ShardId> unseen_ ABSL_GUARDED_BY(mu_);         // of an earlier process, silent until now
  bool rollback_requested_ ABSL_GUARDED_BY(mu_) = false;  // the mark was set since a restore began
  CheckpointFigures figures_ ABSL_GUARDED_BY(mu_);
  uint64_t restore_count_ ABSL_GUARDED_BY(mu_) = 0;
  bool restoring_ ABSL_GUARDED_BY(mu_) = false;  // clients get no map meanwhile
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  // For the metrics: slots by ordinal, as dealt for a topology version; 0: not known yet.
  mutable std::vector<int64_t> slots_ ABSL_GUARDED_BY(mu_);
  mutable uint64_t slots_version_ ABSL_GUARDED_BY(mu_) = 0;

  // Last: they use everything above.
  std::thread sync_thread_, schedule_thread_, scrub_thread_;
};

}  // namespace dslide::coordinator
