#include "services/coordinator/control/checkpoint_control.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

// How long a checkpoint waits for a shard that has just come back to be given its models.
constexpr absl::Duration kModelsPause = absl::Seconds(2);

absl::Status NoDataDir() {
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kNoDataDir,
      "the coordinator has no data directory to commit cluster checkpoints in: start it with "
      "--data-dir");
}

}  // namespace

CheckpointControl::CheckpointControl(const Cluster& cluster,
                                     std::unique_ptr<ClusterCheckpoints> checkpoints,
                                     int64_t full_every, const Clock* clock, Metrics* metrics)
    : cluster_(cluster),
      checkpoints_(std::move(checkpoints)),
      figures_(full_every, clock, metrics) {}

absl::StatusOr<CheckpointControl::Turn> CheckpointControl::TryBegin() {
  if (!enabled()) return NoDataDir();
  if (std::optional<Turn> turn = checkpoints_.TryAcquire()) return *std::move(turn);
  return StatusWithReason(absl::StatusCode::kAborted, reason::kCheckpointRunning,
                          "another cluster checkpoint is being taken or restored: wait for it");
}

absl::StatusOr<CheckpointControl::Turn> CheckpointControl::Begin() {
  if (!enabled()) return NoDataDir();
  return checkpoints_.Acquire();
}

absl::StatusOr<CheckpointControl::Turn> CheckpointControl::Begin(const WorkProgress& progress) {
  if (!enabled()) return NoDataDir();
  return checkpoints_.Acquire(progress);
}

absl::StatusOr<Manifest> CheckpointControl::Take(WorkProgress& progress) {
  // Before the turn, which taking the cluster back needs, and that comes first.
  if (enabled()) cluster_.registry->AwaitSynced(kModelsPause);
  ASSIGN_OR_RETURN(Turn checkpoints, TryBegin());
  // No model comes or goes between the cuts of two shards.
  std::optional<Exclusive<ModelRollout>::Turn> models = cluster_.models->Acquire();
  // The map first: a shard that comes back later has another generation, and will not freeze.
  ASSIGN_OR_RETURN(const ClusterMap map, cluster_.registry->Map());
  RETURN_IF_ERROR(cluster_.registry->CheckNoRowsMissing());
  absl::StatusOr<Manifest> taken = checkpoints->Take(
      map,
      [this](Manifest& manifest) {
        manifest.models = cluster_.registry->ListModels();
        manifest.jobs = cluster_.jobs->Records();
        manifest.assets = cluster_.assets->Capture();
      },
      [&models] { models.reset(); }, progress);
  if (absl::IsCancelled(taken.status())) return taken;  // no failure
  if (!taken.ok()) {
    figures_.AddFailure();
    return taken;
  }
  CountDamaged(checkpoints);  // old ones may have gone
  figures_.AddTaken(*taken);
  return taken;
}

absl::StatusOr<Manifest> CheckpointControl::Restore(uint64_t checkpoint_id,
                                                    WorkProgress& progress) {
  ASSIGN_OR_RETURN(Turn checkpoints, TryBegin());
  const Exclusive<ModelRollout>::Turn models = cluster_.models->Acquire();
  ASSIGN_OR_RETURN(const ClusterMap map, cluster_.registry->BeginRestore());
  absl::StatusOr<Manifest> manifest = checkpoints->Rollback(map, checkpoint_id, progress);
  if (manifest.ok()) {
    absl::Status adopted = cluster_.registry->ReplaceModels(manifest->models);
    if (adopted.ok()) adopted = cluster_.jobs->Replace(manifest->jobs);
    if (adopted.ok()) adopted = ReplaceAssets(*manifest);
    if (!adopted.ok()) manifest = adopted;
    DSLIDE_FAILPOINT("coordinator.rollback.adopted");
  }
  if (manifest.ok() && manifest->topology_version != map.topology_version) {
    // Of a cluster whose coordinator counted otherwise: its models learn the number of this one.
    cluster_.registry->SetReturned(map);
  }
  absl::Status ended = cluster_.registry->EndRestore(manifest.ok(), checkpoints->restore_count());
  if (manifest.ok() && !ended.ok()) return ended;
  return manifest;
}

absl::Status CheckpointControl::ReplaceAssets(const Manifest& manifest) {
  std::vector<AssetSetId> sets;
  for (const AssetSet& set : AssetsOf(manifest)) sets.push_back(set.id);
  if (!manifest.assets.has_value()) {
    // It says nothing of them: models that stay keep theirs.
    for (const ModelSpec& spec : manifest.models) {
      const std::optional<uint32_t> kept = cluster_.assets->Current(spec.name);
      if (kept.has_value()) sets.push_back({spec.name, *kept});
    }
  }
  return cluster_.assets->Replace(sets);
}

absl::StatusOr<Manifest> CheckpointControl::Verify(uint64_t checkpoint_id, WorkProgress& progress) {
  absl::StatusOr<ClusterMap> map;
  absl::StatusOr<Manifest> manifest;
  const ClusterCheckpoints* reader = nullptr;
  {
    ASSIGN_OR_RETURN(Turn checkpoints, Begin(progress));
    map = cluster_.registry->FullMap();
    RETURN_IF_ERROR(map.status());
    manifest = checkpoints->Read(checkpoint_id);
    if (manifest.ok()) checkpoint_id = manifest->checkpoint_id;
    reader = checkpoints.operator->();
  }
  absl::Status verified = manifest.status();
  // Needs no turn, and takes long.
  if (manifest.ok()) verified = reader->VerifyParts(*map, *manifest, progress);
  ASSIGN_OR_RETURN(Turn checkpoints, Begin(progress));
  // It may be gone by now.
  const std::vector<uint64_t> present = checkpoints->CheckpointIds();
  if (std::find(present.begin(), present.end(), checkpoint_id) != present.end()) {
    Judge(checkpoints, checkpoint_id, verified);
  }
  RETURN_IF_ERROR(verified);
  return manifest;
}

void CheckpointControl::Judge(Turn& checkpoints, uint64_t checkpoint_id,
                              const absl::Status& verified) {
  // A shard that does not answer says nothing about its files.
  if (!verified.ok() && !absl::IsDataLoss(verified) && !absl::IsNotFound(verified)) return;
  if (!verified.ok()) {
    LogError("a cluster checkpoint is damaged",
             {{"checkpoint_id", checkpoint_id}, {"error", verified.message()}});
  }
  const absl::Status marked =
      checkpoints->MarkDamage(checkpoint_id, std::string(verified.message()));
  if (!marked.ok()) {
    LogError("cannot mark a cluster checkpoint",
             {{"checkpoint_id", checkpoint_id}, {"error", marked.message()}});
  }
  CountDamaged(checkpoints);
}

void CheckpointControl::CountDamaged(Turn& checkpoints) {
  int64_t damaged = 0;
  for (const uint64_t checkpoint_id : checkpoints->CheckpointIds()) {
    if (!checkpoints->Damage(checkpoint_id).empty()) ++damaged;
  }
  figures_.SetDamaged(damaged);
}

absl::StatusOr<Manifest> CheckpointControl::Adopt(const std::string& text, WorkProgress& progress) {
  ASSIGN_OR_RETURN(Turn checkpoints, Begin(progress));
  ASSIGN_OR_RETURN(const ClusterMap map, cluster_.registry->FullMap());
  ASSIGN_OR_RETURN(Manifest manifest, checkpoints->Adopt(map, text, progress));
  CountDamaged(checkpoints);
  return manifest;
}

absl::StatusOr<std::vector<Manifest>> CheckpointControl::List() {
  ASSIGN_OR_RETURN(const Turn checkpoints, Begin());
  return checkpoints->List();
}

absl::StatusOr<std::vector<uint64_t>> CheckpointControl::Ids() {
  ASSIGN_OR_RETURN(const Turn checkpoints, Begin());
  return checkpoints->CheckpointIds();
}

absl::StatusOr<ClusterCheckpoints::Choice> CheckpointControl::NewestWhole() {
  ASSIGN_OR_RETURN(const Turn checkpoints, Begin());
  return checkpoints->NewestWhole();
}

absl::StatusOr<std::string> CheckpointControl::Text(uint64_t checkpoint_id) {
  ASSIGN_OR_RETURN(const Turn checkpoints, Begin());
  return checkpoints->Text(checkpoint_id);
}

absl::StatusOr<std::vector<uint64_t>> CheckpointControl::Prune(int64_t keep) {
  ASSIGN_OR_RETURN(const Turn checkpoints, Begin());
  ASSIGN_OR_RETURN(const ClusterMap map, cluster_.registry->Map());
  return checkpoints->Prune(map, keep);
}

}  // namespace dslide::coordinator
