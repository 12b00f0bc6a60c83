#include "services/coordinator/jobs/job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "services/coordinator/membership/names.h"

namespace dslide::coordinator {
Job::Job(JobSpec spec, JobTiming timing, LeaseId first_lease)
    : spec_(std::move(spec)), timing_(timing), next_lease_(first_lease) {
  if (spec_.staged) stage_ = JobStage::kPreparation;
  StartEpoch(0);
}

void Job::StartEpoch(int64_t epoch) {
  epoch_ = epoch;
  chunks_done_ = 0;
  samples_done_ = 0;
  cursor_ = 0;
  returned_.clear();
  leases_.clear();
  past_.clear();
  open_ = kNothing;
  if (stage_ == JobStage::kTraining && epoch_ >= spec_.max_epochs) EndTraining();
  const bool trains = stage_ == JobStage::kTraining && !finished_;
  if (stage_ != JobStage::kTraining && !finished_) open_ = kStage;
  chunks_.assign(trains ? static_cast<size_t>(spec_.NumChunks()) : 0, ChunkState::kOpen);
}

void Job::EndTraining() {
  const bool completes = spec_.staged || best_epoch_ >= 0;
  finished_ = !completes;
  if (completes) stage_ = JobStage::kCompletion;
}

void Job::FinishStage() {
  if (stage_ == JobStage::kPreparation) {
    stage_ = JobStage::kTraining;
  } else {
    finished_ = true;
  }
  StartEpoch(epoch_);
}

int64_t Job::ChunkSamples(int64_t chunk) const {
  return std::min(spec_.chunk_samples, spec_.samples_per_epoch - chunk * spec_.chunk_samples);
}

void Job::Join(const ClientId& client, absl::Duration now) { seen_[client] = now; }

absl::Status Job::CheckReport(const ClientId& client, const LeaseReport& report) const {
  const auto invalid = [&](absl::string_view problem) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kBadLeaseReport,
        absl::StrCat("job ", spec_.job, ": lease ", report.lease, " ", problem));
  };
  if (report.lease == 0 || report.lease >= next_lease_) return invalid("was never given");
  const auto lease = leases_.find(report.lease);
  if (lease == leases_.end()) return absl::OkStatus();  // over: late, repeated, or of another epoch
  if (lease->second.client != client) return invalid("is another trainer's");
  const int64_t chunk = lease->second.chunk;
  if (chunk >= 0 && (report.samples < 0 || report.samples > ChunkSamples(chunk))) {
    return invalid(
        absl::StrCat("reports ", report.samples, " samples; its chunk has ", ChunkSamples(chunk)));
  }
  return absl::OkStatus();
}

void Job::ApplyReport(const ClientId& client, const LeaseReport& report, absl::Duration now) {
  ++changes_;
  int64_t chunk = 0;
  if (const auto lease = leases_.find(report.lease); lease != leases_.end()) {
    chunk = lease->second.chunk;
    past_[report.lease] = chunk;
    leases_.erase(lease);
  } else if (const auto past = past_.find(report.lease); past != past_.end()) {
    // The lease ran out, but the work was done all the same. It counts unless somebody else has
    // done it, or is doing it: then that one's report counts.
    chunk = past->second;
    const bool open =
        chunk < 0 ? open_ == chunk : chunks_[static_cast<size_t>(chunk)] == ChunkState::kOpen;
    if (!open) {
      ++counters_.late_reports;
      return;
    }
    std::erase(returned_, chunk);
  } else {
    ++counters_.late_reports;  // of an epoch that is over
    return;
  }
  if (chunk == kStage) {
    best_restored_ = report.best_restored;
    FinishStage();
  } else if (chunk == kEvaluation) {
    FinishEvaluation(report.metric);
  } else {
    progress_.OnChunk(report.samples, report.loss_sum, now);
    FinishChunk(chunk);
  }
}

void Job::FinishChunk(int64_t chunk) {
  chunks_[static_cast<size_t>(chunk)] = ChunkState::kDone;
  ++chunks_done_;
  ++counters_.chunks_done;
  samples_done_ += ChunkSamples(chunk);
  if (chunks_done_ < spec_.NumChunks()) return;
  if (spec_.evaluate) {
    open_ = kEvaluation;
  } else {
    progress_.EndEpoch(epoch_, std::nullopt);
    StartEpoch(epoch_ + 1);
  }
}

void Job::FinishEvaluation(double metric) {
  ++counters_.evaluations_done;
  progress_.EndEpoch(epoch_, std::isfinite(metric) ? std::optional(metric) : std::nullopt);
  // A metric that is not a number (a diverged model) is never better.
  if (!std::isnan(metric) && (best_epoch_ < 0 || metric > best_metric_)) {
    best_metric_ = metric;
    best_epoch_ = epoch_;
    epochs_without_better_ = 0;
  } else {
    ++epochs_without_better_;
  }
  if (spec_.patience_epochs > 0 && epochs_without_better_ >= spec_.patience_epochs) EndTraining();
  StartEpoch(epoch_ + 1);
}

void Job::Renew(const ClientId& client, LeaseId id, absl::Duration now) {
  if (const auto lease = leases_.find(id); lease != leases_.end()) {
    if (lease->second.client == client) lease->second.expires = now + timing_.lease_timeout;
    return;
  }
  // Taken back, but nobody else has it yet: its holder was only slow.
  const auto past = past_.find(id);
  if (past == past_.end()) return;
  const int64_t chunk = past->second;
  if (chunk < 0) {
    if (open_ != chunk) return;
    open_ = kNothing;
  } else {
    if (chunks_[static_cast<size_t>(chunk)] != ChunkState::kOpen) return;
    std::erase(returned_, chunk);
    chunks_[static_cast<size_t>(chunk)] = ChunkState::kLeased;
  }
  leases_[id] = {client, chunk, now + timing_.lease_timeout};
  past_.erase(past);
  ++changes_;
}

void Job::TakeBack(LeaseId id) {
  ++changes_;
  const int64_t chunk = leases_.at(id).chunk;
  leases_.erase(id);
  past_[id] = chunk;
  if (chunk < 0) {
    open_ = chunk;
    return;
  }
  chunks_[static_cast<size_t>(chunk)] = ChunkState::kOpen;
  returned_.insert(std::lower_bound(returned_.begin(), returned_.end(), chunk), chunk);
}

void Job::Expire(absl::Duration now) {
  std::vector<LeaseId> over;
  for (const auto& [id, lease] : leases_) {
    if (lease.expires <= now) over.push_back(id);
  }
  for (const LeaseId id : over) TakeBack(id);
  counters_.leases_expired += static_cast<int64_t>(over.size());
  std::erase_if(seen_,
                [&](const auto& client) { return client.second + timing_.lease_timeout <= now; });
}

int64_t Job::NextOpenChunk() {
  if (!returned_.empty()) {
    const int64_t chunk = returned_.front();
    returned_.pop_front();
    return chunk;
  }
  return cursor_ < static_cast<int64_t>(chunks_.size()) ? cursor_++ : -1;
}

LeaseId Job::Grant(const ClientId& client, int64_t chunk, absl::Duration now) {
  ++changes_;
  const LeaseId id = next_lease_++;
  leases_[id] = {client, chunk, now + timing_.lease_timeout};
  if (chunk >= 0) {
    chunks_[static_cast<size_t>(chunk)] = ChunkState::kLeased;
    progress_.OnLease(now);
  }
  ++counters_.leases_granted;
  return id;
}

Work Job::Describe(LeaseId id, int64_t chunk) const {
  if (chunk == kStage) return StageWork{id, stage_, best_epoch_, best_metric_};
  if (chunk != kEvaluation) {
    return ChunkWork{id, epoch_, chunk * spec_.chunk_samples, ChunkSamples(chunk)};
  }
  EvaluationWork work{.lease = id, .epoch = epoch_};
  if (best_epoch_ >= 0) work.metric_to_beat = best_metric_;
  return work;
}

absl::StatusOr<Work> Job::NextWork(const WorkRequest& request, absl::Duration now) {
  int64_t holding = 0;
  for (auto& [id, lease] : leases_) {
    if (lease.client != request.client) continue;
    ++holding;
    if (std::find(request.held.begin(), request.held.end(), id) != request.held.end()) continue;
    lease.expires = now + timing_.lease_timeout;  // the answer with this lease was lost: once more
    return Describe(id, lease.chunk);
  }
  if (holding >= kMaxLeasesPerClient) {
    return OverloadStatus(reason::kTooManyLeases,
                          absl::StrCat("job ", spec_.job, ": this trainer holds ", holding,
                                       " leases; finish some first"),
                          timing_.wait);
  }
  if (open_ != kNothing) {
    const int64_t due = std::exchange(open_, kNothing);
    return Describe(Grant(request.client, due, now), due);
  }
  const int64_t chunk = NextOpenChunk();
  if (chunk < 0) return WaitForWork{timing_.wait};
  return Describe(Grant(request.client, chunk, now), chunk);
}

absl::StatusOr<Work> Job::Acquire(const WorkRequest& request, absl::Duration now) {
  for (const LeaseReport& report : request.finished) {
    RETURN_IF_ERROR(CheckReport(request.client, report));
  }
  for (const LeaseReport& report : request.finished) ApplyReport(request.client, report, now);
  for (const LeaseId id : request.held) Renew(request.client, id, now);
  Expire(now);
  Join(request.client, now);
  if (finished_) return NoMoreWork{best_epoch_, best_metric_, best_restored_, cancelled_};
  if (!request.want_work) return Work();
  return NextWork(request, now);
}

void Job::Cancel() {
  if (finished_) return;
  ++changes_;
  finished_ = cancelled_ = true;
  StartEpoch(epoch_);
}

void Job::Leave(const ClientId& client, absl::Duration now) {
  std::vector<LeaseId> held;
  for (const auto& [id, lease] : leases_) {
    if (lease.client == client) held.push_back(id);
  }
  for (const LeaseId id : held) TakeBack(id);
  Expire(now);
  seen_.erase(client);
}

JobRecord Job::Record() const {
  JobRecord record{.spec = spec_,
                   .epoch = epoch_,
                   .stage = stage_,
                   .finished = finished_,
                   .done = {},
                   .best_epoch = best_epoch_,
                   .best_metric = best_metric_,
                   .epochs_without_better = epochs_without_better_,
                   .best_restored = best_restored_,
                   .cancelled = cancelled_,
                   .epochs = progress_.epochs()};
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (chunks_[chunk] != ChunkState::kDone) continue;
    const auto number = static_cast<int64_t>(chunk);
    if (!record.done.empty() && record.done.back().first + record.done.back().count == number) {
      ++record.done.back().count;
    } else {
      record.done.push_back({number, 1});
    }
  }
  return record;
}

absl::Status Job::Restore(const JobRecord& record) {
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("the record of job ", spec_.job, " ", what));
  };
  if (record.spec != spec_) return damaged("is of another job");
  if (record.epoch < 0 || record.epoch > spec_.max_epochs) return damaged("has a bad epoch");
  int64_t end = 0;
  for (const JobRecord::Range& range : record.done) {
    if (range.first < end || range.count < 1 || range.count > spec_.NumChunks() - range.first) {
      return damaged("has bad chunks");
    }
    end = range.first + range.count;
  }
  const bool trains = record.stage == JobStage::kTraining && !record.finished;
  if (!trains && end > 0) return damaged("has open chunks and does not train");
  const bool has_stage = record.stage == JobStage::kTraining || spec_.staged ||
                         (record.stage == JobStage::kCompletion && record.best_epoch >= 0);
  if (!has_stage) return damaged("has a bad stage");
  stage_ = record.stage;
  finished_ = record.finished;
  best_epoch_ = record.best_epoch;
  best_metric_ = record.best_metric;
  epochs_without_better_ = record.epochs_without_better;
  best_restored_ = record.best_restored;
  cancelled_ = record.cancelled;
  progress_.Restore(record.epochs);
  StartEpoch(record.epoch);
  for (const JobRecord::Range& range : record.done) {
    for (int64_t chunk = range.first; chunk < range.first + range.count; ++chunk) {
      chunks_[static_cast<size_t>(chunk)] = ChunkState::kDone;
      ++chunks_done_;
      samples_done_ += ChunkSamples(chunk);
    }
  }
  FindOpenWork();
  return absl::OkStatus();
}

void Job::FindOpenWork() {
  ++changes_;
  // What comes after the last chunk that somebody had was never leased.
  cursor_ = static_cast<int64_t>(chunks_.size());
  while (cursor_ > 0 && chunks_[static_cast<size_t>(cursor_ - 1)] == ChunkState::kOpen) --cursor_;
  for (const auto& [id, chunk] : past_) cursor_ = std::max(cursor_, chunk + 1);
  returned_.clear();
  for (int64_t chunk = 0; chunk < cursor_; ++chunk) {
    if (chunks_[static_cast<size_t>(chunk)] == ChunkState::kOpen) returned_.push_back(chunk);
  }
  if (stage_ == JobStage::kTraining && !finished_ && spec_.evaluate &&
      chunks_done_ == spec_.NumChunks()) {
    open_ = kEvaluation;
  }
}

JobState Job::State() const {
  JobState state{.record = Record(), .next_lease = next_lease_};
  for (const auto& [id, lease] : leases_) {
    state.leases.push_back({.lease = id, .client = lease.client, .chunk = lease.chunk});
  }
  for (const auto& [id, chunk] : past_) {
    const bool open =
        chunk < 0 ? open_ == chunk : chunks_[static_cast<size_t>(chunk)] == ChunkState::kOpen;
    if (open) state.leases.push_back({.lease = id, .client = {}, .chunk = chunk, .over = true});
  }
  std::sort(state.leases.begin(), state.leases.end(),
            [](const auto& a, const auto& b) { return a.lease < b.lease; });
  return state;
}

absl::Status Job::Resume(const JobState& state, absl::Duration now) {
  RETURN_IF_ERROR(Restore(state.record));
  next_lease_ = std::max(next_lease_, state.next_lease);
  const auto chunks = static_cast<int64_t>(chunks_.size());
  for (const JobState::Lease& lease : state.leases) {
    const int64_t chunk = lease.chunk;
    const bool due = chunk < 0 && open_ == chunk;
    const bool open =
        chunk >= 0 && chunk < chunks && chunks_[static_cast<size_t>(chunk)] == ChunkState::kOpen;
    if (lease.lease == 0 || lease.lease >= state.next_lease || (!due && !open)) {
      return absl::DataLossError(
          absl::StrCat("the state of job ", spec_.job, " has a bad lease ", lease.lease));
    }
    if (lease.over) {
      past_[lease.lease] = chunk;
      continue;
    }
    leases_[lease.lease] = {lease.client, chunk, now + timing_.lease_timeout};
    seen_[lease.client] = now;
    if (due) open_ = kNothing;
    if (open) chunks_[static_cast<size_t>(chunk)] = ChunkState::kLeased;
  }
  const int64_t due = open_;
  FindOpenWork();
  open_ = due;
  return absl::OkStatus();
}

JobCounters& JobCounters::operator+=(const JobCounters& other) {
  leases_granted += other.leases_granted;
  leases_expired += other.leases_expired;
  late_reports += other.late_reports;
  chunks_done += other.chunks_done;
  evaluations_done += other.evaluations_done;
  return *this;
}

JobStatus Job::Status(absl::Duration now) const {
  JobStatus status{.job = spec_.job,
                   .model = spec_.model,
                   .epoch = epoch_,
                   .max_epochs = spec_.max_epochs,
                   .samples_done = samples_done_,
                   .samples_per_epoch = spec_.samples_per_epoch,
                   .finished = finished_,
                   .cancelled = cancelled_,
                   .best_epoch = best_epoch_,
                   .best_metric = best_metric_,
                   .samples_per_second = finished_ ? 0.0 : progress_.SamplesPerSecond(now),
                   .loss = progress_.loss(),
                   .epochs = progress_.epochs()};
  for (const auto& [client, seen] : seen_) {
    if (seen + timing_.lease_timeout > now) ++status.trainers;
  }
  return status;
}

}  // namespace dslide::coordinator
