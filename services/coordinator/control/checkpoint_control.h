// Cluster checkpoints of a cluster that goes on living: what else has to stand still for them, and
// what a restored one changes beside the shards.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/checkpoints/checkpoint_figures.h"
#include "services/coordinator/checkpoints/cluster_checkpoints.h"
#include "services/coordinator/control/cluster_registry.h"
#include "services/coordinator/control/model_rollout.h"
#include "services/coordinator/jobs/job_table.h"
#include "services/coordinator/tasks/exclusive.h"
#include "services/coordinator/tasks/work_progress.h"

namespace dslide::coordinator {

// All calls are FailedPrecondition NO_DATA_DIR without cluster checkpoints, and those with a
// WorkProgress end when it says so. Thread safety: safe from any thread.
class CheckpointControl {
 public:
  // What a checkpoint is of. They outlive it.
  struct Cluster {
    ClusterRegistry* registry = nullptr;
    JobTable* jobs = nullptr;
    AssetStore* assets = nullptr;
    Exclusive<ModelRollout>* models = nullptr;
  };
  // checkpoints: null where there are none. full_every: of its options. `clock` and `metrics`
  // outlive it.
  CheckpointControl(const Cluster& cluster, std::unique_ptr<ClusterCheckpoints> checkpoints,
                    int64_t full_every, const Clock* clock, Metrics* metrics);

  // Aborted CHECKPOINT_RUNNING while another is taken or restored; Unavailable while rows or models
  // are missing; those of ClusterCheckpoints::Take.
  absl::StatusOr<Manifest> Take(WorkProgress& progress);
  // Aborted as Take; those of ClusterCheckpoints::Rollback.
  absl::StatusOr<Manifest> Restore(uint64_t checkpoint_id, WorkProgress& progress);

  // checkpoint_id: 0 for the newest. Others are taken while the files are read.
  absl::StatusOr<Manifest> Verify(uint64_t checkpoint_id, WorkProgress& progress);
  absl::StatusOr<Manifest> Adopt(const std::string& text, WorkProgress& progress);

  absl::StatusOr<std::vector<Manifest>> List();
  absl::StatusOr<std::vector<uint64_t>> Ids();
  absl::StatusOr<ClusterCheckpoints::Choice> NewestWhole();
  absl::StatusOr<std::string> Text(uint64_t checkpoint_id);
  absl::StatusOr<std::vector<uint64_t>> Prune(int64_t keep);

  bool enabled() const { return checkpoints_.has_value(); }
  // One is taken or restored.
  bool running() const { return checkpoints_.taken(); }
  CheckpointFigures& figures() { return figures_; }
  const CheckpointFigures& figures() const { return figures_; }

 private:
  using Turn = Exclusive<ClusterCheckpoints>::Turn;
  // At once, or Aborted.
  absl::StatusOr<Turn> TryBegin();
  // Once it is free.
  absl::StatusOr<Turn> Begin();
  absl::StatusOr<Turn> Begin(const WorkProgress& progress);
  absl::Status ReplaceAssets(const Manifest& manifest);
  // Marks what a verification has found.
  void Judge(Turn& checkpoints, uint64_t checkpoint_id, const absl::Status& verified);
  void CountDamaged(Turn& checkpoints);

  const Cluster cluster_;                      // its parts are self-synchronised
  Exclusive<ClusterCheckpoints> checkpoints_;  // self-synchronised
  CheckpointFigures figures_;                  // self-synchronised
};

}  // namespace dslide::coordinator
