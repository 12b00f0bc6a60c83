// Which shards and models the cluster has, and whether it is being taken back to a checkpoint.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "core/protocol/cluster_status.h"
#include "services/coordinator/checkpoints/restore_mark.h"
#include "services/coordinator/membership/membership.h"
#include "services/coordinator/models/catalog.h"
#include "services/coordinator/models/catalog_store.h"

namespace dslide::coordinator {

struct RetirementRequest {
  std::string model;
  RetiredLabels labels = {};
  bool restore = false;  // they are in use again
  bool dry_run = false;
};

// The state machines of membership and models behind one lock, with what of them outlives the
// process. It calls nobody. Thread safety: safe from any thread.
class ClusterRegistry {
 public:
  // store: null for a registry without memory. mark: null where there are no cluster checkpoints.
  // restore_count: how many times the cluster was taken back. All that is passed outlives it.
  ClusterRegistry(const MembershipOptions& options, const Clock* clock,
                  std::unique_ptr<CatalogStore> store, RestoreMark* mark, uint64_t restore_count,
                  Metrics* metrics);
  ~ClusterRegistry();

  // Takes what an earlier process has kept. Errors: those of CatalogStore::Load and
  // Membership::Restore.
  absl::Status Load();

  // --- Shards (membership.h says what and which errors).
  // `models` are those the shard has already. Unknown ones are adopted, and rows by which one has
  // grown; a different one of a known name is FailedPrecondition MODEL_DIFFERS. Whoever is new
  // waits to be given the models that it lacks.
  absl::StatusOr<Ownership> Register(const ShardRegistration& request,
                                     const std::vector<ModelSpec>& models);
  absl::StatusOr<HeartbeatAnswer> Heartbeat(ShardId shard, uint64_t generation,
                                            int64_t memory_bytes, int64_t applied_commands);
  // log_failed: why it leaves.
  absl::Status Deregister(ShardId shard, uint64_t generation, bool log_failed);
  // For clients: Unavailable NOT_ALL_SHARDS also while the cluster is being taken back.
  absl::StatusOr<ClusterMap> Map() const;
  // Also while shards may show different instants.
  absl::StatusOr<ClusterMap> FullMap() const;
  std::vector<ShardInfo> Shards() const;
  uint64_t topology_version() const;
  // Shards and models at one moment; the rest is left empty.
  ClusterStatus Status() const;

  // --- Models. Shards are not asked.
  // Errors: those of Catalog::Check.
  absl::StatusOr<bool> CheckModel(const ModelSpec& spec) const;
  // NotFound UNKNOWN_MODEL.
  absl::Status FindModel(const std::string& name) const;
  std::vector<ModelSpec> ListModels() const;
  // A model as it would be with that. Errors: those of Catalog::Grown.
  absl::StatusOr<ModelSpec> GrownModel(const std::string& name, const Growth& growth) const;
  // A model as it would be with these labels retired. Errors: those of Catalog::WithRetiredLabels.
  absl::StatusOr<ModelSpec> RetiredModel(const RetirementRequest& request) const;
  // Durable when they return. Errors: those of Catalog and CatalogStore.
  absl::Status AddModel(const ModelSpec& spec);
  // In the place of the one of its name; every shard of the map is to get what is new of it.
  absl::Status PutChangedModel(const ModelSpec& spec, const ClusterMap& map);
  absl::Status RemoveModel(const std::string& name);
  // Makes the models those of a checkpoint. Errors: those of CatalogStore; repeat it.
  absl::Status ReplaceModels(const std::vector<ModelSpec>& models);

  // --- Shards that have come back.
  // Waits until there is something to do for them, which the next calls say. False after Stop().
  bool AwaitReturned();
  // Shards, with their generations, that may lack models.
  std::map<ShardId, uint64_t> Returned() const;
  // It has all models.
  void SetSynced(ShardId shard, uint64_t generation);
  // Nobody waits any more, or somebody waits for the whole cluster.
  void AwaitSynced(absl::Duration timeout) const;
  // Unavailable while a checkpoint would be of rows or models that are missing.
  absl::Status CheckNoRowsMissing() const;

  // --- Going back to a checkpoint. One restore at a time.
  // A shard has come back without its rows, or a restore was not finished.
  bool rollback_requested() const;
  // To which one, if so; RestoreMark::kNewest: the newest.
  uint64_t rollback_target() const { return mark_->checkpoint_id().value_or(RestoreMark::kNewest); }
  // There is no checkpoint to go back to. Errors: those of RestoreMark.
  absl::Status ClearRollbackRequest();
  // From here on clients get no map; also after EndRestore() as long as shards may differ.
  absl::StatusOr<ClusterMap> BeginRestore();
  // done: all shards are there; then the mark goes. Errors: those of RestoreMark.
  absl::Status EndRestore(bool done, uint64_t restore_count);
  // The models of all shards of the map are to learn the topology's version.
  void SetReturned(const ClusterMap& map);

  // Ends waiting. Repeating it is fine.
  void Stop();

 private:
  void AddMetrics();
  void AddSlotMetrics();
  double SlotsOf(ShardId shard) const;
  double CountShards(ShardHealth health) const;
  bool LacksModels(const std::vector<ModelSpec>& models) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool ReturnedOrStopped() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool SyncedOrStopped() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool RollbackPending() const;
  absl::StatusOr<ClusterMap> MapLocked() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::Status PutModelLocked(const ModelSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status RemoveModelLocked(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t expected_shards_;  // constant after construction
  Metrics* const metrics_;         // self-synchronised
  RestoreMark* const mark_;        // self-synchronised; null: none

  mutable absl::Mutex mu_;
  const std::unique_ptr<CatalogStore> store_ ABSL_PT_GUARDED_BY(mu_);
  Membership membership_ ABSL_GUARDED_BY(mu_);
  Catalog catalog_ ABSL_GUARDED_BY(mu_);
  std::map<ShardId, uint64_t> returned_ ABSL_GUARDED_BY(mu_);  // shard -> generation
  std::set<ShardId> unseen_ ABSL_GUARDED_BY(mu_);         // of an earlier process, silent until now
  bool rollback_requested_ ABSL_GUARDED_BY(mu_) = false;  // the mark was set since a restore began
  bool restoring_ ABSL_GUARDED_BY(mu_) = false;           // clients get no map meanwhile
  uint64_t restore_count_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  // For the metrics: slots by ordinal, as dealt for a topology version; 0: not known yet.
  mutable std::vector<int64_t> slots_ ABSL_GUARDED_BY(mu_);
  mutable uint64_t slots_version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace dslide::coordinator
