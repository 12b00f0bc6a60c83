// The part of the Coordinator that reads committed cluster checkpoints again, long before somebody
// needs one: disks forget, and a checkpoint that nobody reads is not known to be there.

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/status_macros.h"
#include "core/system/log.h"
#include "services/coordinator/control/coordinator.h"
#include "services/coordinator/work/work_lock.h"

namespace dslide::coordinator {
namespace {

// How often the scrubber looks whether it is time.
constexpr absl::Duration kScrubPause = absl::Milliseconds(200);
// After a pass that could not look at everything, or at once when passes come more often than that.
constexpr absl::Duration kScrubAgain = absl::Minutes(10);

}  // namespace

void Coordinator::CountDamaged() {
  int64_t damaged = 0;
  for (const uint64_t checkpoint_id : cuts_->CheckpointIds()) {
    if (!cuts_->Damage(checkpoint_id).empty()) ++damaged;
  }
  const absl::MutexLock lock(&mu_);
  figures_.damaged = damaged;
}

void Coordinator::Judge(uint64_t checkpoint_id, const absl::Status& verified) {
  // A shard that does not answer says nothing about its files.
  if (!verified.ok() && !absl::IsDataLoss(verified) && !absl::IsNotFound(verified)) return;
  if (!verified.ok()) {
    LogError("a cluster checkpoint is damaged",
             {{"checkpoint_id", checkpoint_id}, {"error", verified.message()}});
  }
  const absl::Status marked = cuts_->MarkDamage(checkpoint_id, std::string(verified.message()));
  if (!marked.ok()) {
    LogError("cannot mark a cluster checkpoint",
             {{"checkpoint_id", checkpoint_id}, {"error", marked.message()}});
  }
  CountDamaged();
}

// Without the lock while files are read: checkpoints are taken meanwhile.
absl::StatusOr<Manifest> Coordinator::VerifyClusterCheckpoint(
    uint64_t checkpoint_id, WorkProgress& progress) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  absl::StatusOr<ClusterMap> map;
  absl::StatusOr<Manifest> manifest;
  {
    const WorkLock cut_lock(&cut_mu_, progress);
    if (!cut_lock.held()) return progress.Check();
    map = MapForRestore();
    RETURN_IF_ERROR(map.status());
    manifest = cuts_->Read(checkpoint_id);
    if (manifest.ok()) checkpoint_id = manifest->checkpoint_id;
  }
  absl::Status verified = manifest.status();
  if (manifest.ok()) verified = cuts_->VerifyParts(*map, *manifest, progress);
  const WorkLock cut_lock(&cut_mu_, progress);
  if (!cut_lock.held()) return progress.Check();
  // It may be gone by now.
  const std::vector<uint64_t> present = cuts_->CheckpointIds();
  if (std::find(present.begin(), present.end(), checkpoint_id) != present.end()) {
    Judge(checkpoint_id, verified);
  }
  RETURN_IF_ERROR(verified);
  return manifest;
}

bool Coordinator::Scrub() {
  std::vector<uint64_t> checkpoint_ids;
  {
    const absl::MutexLock cut_lock(&cut_mu_);
    checkpoint_ids = cuts_->CheckpointIds();
  }
  bool complete = true;
  for (const uint64_t checkpoint_id : checkpoint_ids) {
    WorkProgress progress;                   // nobody looks at it
    absl::Status verified = Map().status();  // not while the cluster goes back
    if (verified.ok()) verified = VerifyClusterCheckpoint(checkpoint_id, progress).status();
    if (verified.ok() || absl::IsDataLoss(verified) || absl::IsNotFound(verified)) continue;
    complete = false;
    LogWarning("a cluster checkpoint could not be verified; trying again later",
               {{"checkpoint_id", checkpoint_id}, {"error", verified.message()}});
  }
  return complete;
}

void Coordinator::ScrubLoop() {
  absl::Duration due = clock_->Now() + options_.scrub_interval;
  for (;;) {
    {
      const absl::MutexLock lock(&mu_);
      mu_.AwaitWithTimeout(absl::Condition(&stopped_), kScrubPause);
      if (stopped_) return;
    }
    if (clock_->Now() < due) continue;
    const absl::Duration start = clock_->Now();
    const bool complete = Scrub();
    due = clock_->Now() +
          (complete ? options_.scrub_interval : std::min(kScrubAgain, options_.scrub_interval));
    if (!complete) continue;
    LogInfo("cluster checkpoints verified",
            {{"duration", absl::FormatDuration(clock_->Now() - start)}});
    const absl::MutexLock lock(&mu_);
    figures_.scrubbed = clock_->Now();
  }
}

}  // namespace dslide::coordinator
