// The part of the Coordinator that takes cluster checkpoints, and goes back to them.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "services/coordinator/control/coordinator.h"
#include "services/coordinator/work/work_lock.h"

namespace dslide::coordinator {
namespace {

// How often the schedule looks whether it is time.
constexpr absl::Duration kSchedulePause = absl::Milliseconds(200);
// How long a checkpoint waits for a shard that has just come back to be given its models.
constexpr absl::Duration kModelsPause = absl::Seconds(2);

absl::Status Busy() {
  return StatusWithReason(absl::StatusCode::kAborted, reason::kCheckpointRunning,
                          "another cluster checkpoint is being taken or restored: wait for it");
}

absl::Status NoDataDir() {
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kNoDataDir,
      "the coordinator has no data directory to commit cluster checkpoints in: start it with "
      "--data-dir");
}

}  // namespace

absl::StatusOr<ClusterMap> Coordinator::MapForCheckpoints() const {
  if (cuts_ == nullptr) return NoDataDir();
  return Map();
}

absl::StatusOr<ClusterMap> Coordinator::MapForRestore() const {
  if (cuts_ == nullptr) return NoDataDir();
  const absl::MutexLock lock(&mu_);
  return FullMap();
}

void Coordinator::CaptureForCheckpoint(Manifest& manifest) {
  const absl::MutexLock lock(&mu_);
  manifest.models = catalog_.List();
  for (const std::string& name : job_order_) manifest.jobs.push_back(jobs_.at(name)->Record());
}

absl::Status Coordinator::CheckNoRowsMissing() const {
  const absl::MutexLock lock(&mu_);
  if (rollback_requested_) {
    return absl::UnavailableError(
        "a shard came back without its rows, and a checkpoint would be of their absence: wait "
        "until the cluster was taken back, or restore a checkpoint");
  }
  if (to_sync_.empty() || catalog_.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("shard ", to_sync_.begin()->first.value(),
                   " came back and does not have all models yet, and a checkpoint would be without "
                   "them: ask again; the coordinator's log says what keeps it"));
}

absl::StatusOr<Manifest> Coordinator::TakeClusterCheckpoint(WorkProgress& progress)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  {
    // Not under cut_mu_, which taking the cluster back needs, and that comes first.
    const absl::MutexLock lock(&mu_);
    const auto all_have_models = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stopped_ || rollback_requested_ || to_sync_.empty();
    };
    mu_.AwaitWithTimeout(absl::Condition(&all_have_models), kModelsPause);
  }
  const WorkLock cut_lock(&cut_mu_);
  if (!cut_lock.held()) return Busy();
  // No model comes or goes between the cuts of two shards.
  std::optional<absl::MutexLock> models_lock(std::in_place, &models_mu_);
  // The map first: a shard that comes back later has another generation, and will not freeze.
  ASSIGN_OR_RETURN(const ClusterMap map, MapForCheckpoints());
  RETURN_IF_ERROR(CheckNoRowsMissing());
  absl::StatusOr<Manifest> taken = cuts_->Take(
      map, [this](Manifest& manifest) { CaptureForCheckpoint(manifest); },
      [&models_lock] { models_lock.reset(); }, progress);
  if (absl::IsCancelled(taken.status())) return taken;  // no failure
  if (!taken.ok()) {
    failed_checkpoints_.Increment();
    const absl::MutexLock lock(&mu_);
    ++figures_.failures;
    return taken;
  }
  CountDamaged();  // old ones may have gone
  const absl::MutexLock lock(&mu_);
  figures_.last = clock_->Now();
  figures_.cost = absl::Microseconds(taken->duration_us);
  figures_.stall = absl::Microseconds(taken->stall_us);
  figures_.last_checkpoint_id = taken->checkpoint_id;
  figures_.costs.Add(figures_.cost);
  CheckpointFigures::Sum& sum = IsIncrement(*taken) ? figures_.incremental : figures_.full;
  ++sum.checkpoints;
  sum.bytes += WrittenBytes(*taken);
  return taken;
}

absl::StatusOr<std::vector<Manifest>> Coordinator::ListClusterCheckpoints() {
  const absl::MutexLock cut_lock(&cut_mu_);
  if (cuts_ == nullptr) return NoDataDir();
  return cuts_->List();
}

absl::StatusOr<ClusterCheckpoints::Choice> Coordinator::NewestWholeCheckpoint() {
  const absl::MutexLock cut_lock(&cut_mu_);
  if (cuts_ == nullptr) return NoDataDir();
  return cuts_->NewestWhole();
}

absl::StatusOr<std::string> Coordinator::ClusterCheckpointText(uint64_t checkpoint_id) {
  const absl::MutexLock cut_lock(&cut_mu_);
  if (cuts_ == nullptr) return NoDataDir();
  return cuts_->Text(checkpoint_id);
}

absl::StatusOr<Manifest> Coordinator::AdoptClusterCheckpoint(
    const std::string& text, WorkProgress& progress) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const WorkLock cut_lock(&cut_mu_, progress);
  if (!cut_lock.held()) return progress.Check();
  ASSIGN_OR_RETURN(const ClusterMap map, MapForRestore());
  ASSIGN_OR_RETURN(Manifest manifest, cuts_->Adopt(map, text, progress));
  CountDamaged();
  return manifest;
}

absl::StatusOr<std::vector<uint64_t>> Coordinator::PruneClusterCheckpoints(int64_t keep) {
  const absl::MutexLock cut_lock(&cut_mu_);
  ASSIGN_OR_RETURN(const ClusterMap map, MapForCheckpoints());
  return cuts_->Prune(map, keep);
}

absl::StatusOr<Manifest> Coordinator::RestoreClusterCheckpoint(
    uint64_t checkpoint_id, WorkProgress& progress) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const WorkLock cut_lock(&cut_mu_);
  if (!cut_lock.held()) return Busy();
  const absl::MutexLock models_lock(&models_mu_);
  ASSIGN_OR_RETURN(const ClusterMap map, BeginRestore());
  absl::StatusOr<Manifest> manifest = cuts_->Rollback(map, checkpoint_id, progress);
  if (manifest.ok()) {
    if (absl::Status adopted = AdoptManifest(*manifest); !adopted.ok()) manifest = adopted;
    DSLIDE_FAILPOINT("coordinator.rollback.adopted");
  }
  if (manifest.ok() && manifest->topology_version != map.topology_version) {
    // Of a cluster whose coordinator counted otherwise: its models learn the number of this one.
    const absl::MutexLock lock(&mu_);
    for (const ShardView& shard : map.shards) to_sync_[shard.shard] = shard.generation;
  }
  if (absl::Status ended = EndRestore(manifest.ok()); manifest.ok() && !ended.ok()) return ended;
  return manifest;
}

absl::StatusOr<ClusterMap> Coordinator::BeginRestore() {
  if (cuts_ == nullptr) return NoDataDir();
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(ClusterMap map, FullMap());
  restoring_ = true;
  // A shard that registers from here on is not in the map.
  rollback_requested_ = false;
  return map;
}

absl::Status Coordinator::EndRestore(bool done) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const absl::MutexLock lock(&mu_);
  absl::Status marked;
  if (done && rollback_requested_) {
    // A shard has registered without rows meanwhile, and was perhaps not the one that went back.
    marked = restore_mark_->Begin(RestoreMark::kNewest);
  } else if (done) {
    marked = restore_mark_->Clear();
  }
  rollback_requested_ = restore_mark_->checkpoint_id().has_value();
  restoring_ = restore_mark_->begun();
  restore_count_ = cuts_->restore_count();
  return marked;
}

absl::Status Coordinator::AdoptManifest(const Manifest& manifest) {
  const absl::MutexLock lock(&mu_);
  for (const ModelSpec& known : catalog_.List()) {
    const bool stays = std::any_of(manifest.models.begin(), manifest.models.end(),
                                   [&](const ModelSpec& spec) { return spec.name == known.name; });
    if (stays) continue;
    if (store_ != nullptr) RETURN_IF_ERROR(store_->DeleteModel(known.name));
    RETURN_IF_ERROR(catalog_.Remove(known.name));
  }
  for (const ModelSpec& spec : manifest.models) {
    if (catalog_.Find(spec.name) != nullptr) continue;
    if (store_ != nullptr) RETURN_IF_ERROR(store_->PutModel(spec));
    RETURN_IF_ERROR(catalog_.Add(spec).status());
  }
  for (const std::string& name : std::deque<std::string>(job_order_)) {
    const JobSpec& spec = jobs_.at(name)->spec();
    const bool stays = std::any_of(manifest.jobs.begin(), manifest.jobs.end(),
                                   [&](const JobRecord& job) { return job.spec == spec; });
    if (!stays) ForgetJob(name);
  }
  for (const JobRecord& record : manifest.jobs) {
    std::unique_ptr<Job>& job = jobs_[record.spec.job];
    if (job == nullptr) {
      job = std::make_unique<Job>(record.spec, options_.timing, options_.first_lease);
      job_order_.push_back(record.spec.job);
    }
    RETURN_IF_ERROR(job->Restore(record));
  }
  return absl::OkStatus();
}

int64_t Coordinator::AppliedCommands() const {
  const absl::MutexLock lock(&mu_);
  int64_t sum = 0;
  for (const ShardView& shard : membership_.Shards()) sum += shard.applied_commands;
  return sum;
}

void Coordinator::ScheduleLoop() {
  const CheckpointSchedule& schedule = options_.schedule;
  absl::Duration due = clock_->Now() + schedule.PauseAfter(absl::ZeroDuration());
  int64_t applied = 0;
  for (;;) {
    absl::Duration cost;
    {
      const absl::MutexLock lock(&mu_);
      mu_.AwaitWithTimeout(absl::Condition(&stopped_), kSchedulePause);
      if (stopped_) return;
      cost = figures_.costs.Mean();
    }
    // Without new work there is nothing new to keep.
    if (clock_->Now() < due || AppliedCommands() == applied || !Map().ok()) continue;
    const int64_t before = AppliedCommands();
    WorkProgress progress;  // nobody looks at it
    const absl::StatusOr<Manifest> taken = TakeClusterCheckpoint(progress);
    if (taken.ok()) {
      applied = before;
      const absl::MutexLock lock(&mu_);
      cost = figures_.costs.Mean();
    } else {
      LogWarning("no cluster checkpoint was taken; trying again later",
                 {{"error", taken.status().message()}});
      if (ReasonOf(taken.status()) == reason::kNoDataDir) return;  // for good
    }
    due = clock_->Now() + schedule.PauseAfter(cost);
  }
}

}  // namespace dslide::coordinator
