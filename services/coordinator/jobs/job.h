// The work of one training job: which trainer works on which part of which epoch. A pure state
// machine: no clock, no threads, no network; time comes in as an argument.
//
// An epoch's order of points is cut into chunks. Chunks are leased in order, those of lost trainers
// first. Each chunk counts once per epoch, however often it was leased: a late report of a chunk
// that was leased again is ignored. When all chunks of an epoch are trained, exactly one trainer
// gets an evaluation (if the job wants them) and the others wait; then the next epoch begins. One
// trainer likewise restores the best epoch after the last one. Of a staged job that trainer also
// completes the model, and one prepares it before the first epoch.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/protocol/cluster_status.h"
#include "core/protocol/job_work.h"
#include "services/coordinator/jobs/job_progress.h"
#include "services/coordinator/jobs/job_spec.h"

namespace dslide::coordinator {

// Leases that one trainer may hold.
inline constexpr int64_t kMaxLeasesPerClient = 64;

struct JobTiming {
  // A lease that is not renewed for this long is given to somebody else.
  absl::Duration lease_timeout = absl::Seconds(30);
  // What a trainer without work is told to wait.
  absl::Duration wait = absl::Milliseconds(50);
};

// Counts since the job began, for metrics.
struct JobCounters {
  int64_t leases_granted = 0;
  int64_t leases_expired = 0;
  int64_t late_reports = 0;  // ignored: the chunk was counted through another lease
  int64_t chunks_done = 0;
  int64_t evaluations_done = 0;

  JobCounters& operator+=(const JobCounters& other);
};

// Not thread-safe. `now` never goes back (Clock::Now()).
class Job {
 public:
  // `spec` is valid. Leases are numbered from `first_lease`.
  Job(JobSpec spec, JobTiming timing, LeaseId first_lease = 1);

  JobRecord Record() const;
  // Goes back to a record of this job; what is leased now is nobody's. New leases have new numbers.
  // Errors: DataLoss when the record does not fit; nothing is changed.
  absl::Status Restore(const JobRecord& record);

  // All but the number. Leases have a new term after Resume().
  JobState State() const;
  // Of a new object. Errors: DataLoss when the state is of no such job.
  absl::Status Resume(const JobState& state, absl::Duration now);
  // Grows whenever State() becomes another one.
  int64_t changes() const { return changes_; }

  const JobSpec& spec() const { return spec_; }
  const JobCounters& counters() const { return counters_; }

  // A trainer says that it takes part. Acquire() does so too.
  void Join(const ClientId& client, absl::Duration now);

  // Takes reports and renewals, then hands out work. A lease of this client that is in neither list
  // was lost on the way to it and is given again. Repeating a request changes nothing but the
  // leases' times, and may hand out a further chunk.
  //
  // Errors (nothing is changed): InvalidArgument for a lease that was never given or is another
  // trainer's now, or for more samples than its chunk has; ResourceExhausted when the client holds
  // kMaxLeasesPerClient.
  absl::StatusOr<Work> Acquire(const WorkRequest& request, absl::Duration now);

  // Ends the job, unless it has ended: there is no more work, and no report counts.
  void Cancel();

  // Returns all leases of a trainer.
  void Leave(const ClientId& client, absl::Duration now);

  JobStatus Status(absl::Duration now) const;
  // What is done now: epochs, or what comes before and after them.
  JobStage stage() const { return stage_; }
  // Leases that are out now.
  int64_t leases() const { return static_cast<int64_t>(leases_.size()); }

 private:
  enum class ChunkState : uint8_t { kOpen, kLeased, kDone };
  // In place of a chunk's number: work that one trainer does while the others wait.
  static constexpr int64_t kEvaluation = -1;
  static constexpr int64_t kStage = -2;
  static constexpr int64_t kNothing = -3;

  struct Lease {
    ClientId client = {};
    int64_t chunk = 0;  // or kEvaluation, kStage
    absl::Duration expires;
  };

  absl::Status CheckReport(const ClientId& client, const LeaseReport& report) const;
  void ApplyReport(const ClientId& client, const LeaseReport& report, absl::Duration now);
  void Renew(const ClientId& client, LeaseId id, absl::Duration now);
  // Takes back what was not renewed in time.
  void Expire(absl::Duration now);
  void TakeBack(LeaseId id);
  int64_t ChunkSamples(int64_t chunk) const;
  // The next chunk that nobody has: returned ones first. -1 when all are out or done.
  int64_t NextOpenChunk();
  LeaseId Grant(const ClientId& client, int64_t chunk, absl::Duration now);
  Work Describe(LeaseId id, int64_t chunk) const;
  absl::StatusOr<Work> NextWork(const WorkRequest& request, absl::Duration now);
  void FinishChunk(int64_t chunk);
  void FinishEvaluation(double metric);
  void FinishStage();
  void EndTraining();
  // Or what comes after the last.
  void StartEpoch(int64_t epoch);
  // Says again what can be leased, once the states of chunks and the leases are set.
  void FindOpenWork();

  const JobSpec spec_;
  const JobTiming timing_;
  LeaseId next_lease_;
  JobCounters counters_;
  int64_t changes_ = 0;

  JobStage stage_ = JobStage::kTraining;
  bool finished_ = false;
  int64_t epoch_ = 0;
  std::vector<ChunkState> chunks_;  // of this epoch
  int64_t chunks_done_ = 0;
  int64_t samples_done_ = 0;
  int64_t cursor_ = 0;               // chunks from here on were never leased in this epoch
  std::deque<int64_t> returned_;     // chunks taken back, in ascending order of their numbers
  int64_t open_ = kNothing;          // kEvaluation or kStage: it is due, and nobody has it
  std::map<LeaseId, Lease> leases_;  // out now
  std::map<LeaseId, int64_t> past_;  // leases of this epoch that are over: their chunk
  std::map<ClientId, absl::Duration> seen_;  // when each trainer was last heard of

  int64_t best_epoch_ = -1;
  double best_metric_ = 0.0;
  int64_t epochs_without_better_ = 0;
  bool best_restored_ = false;
  bool cancelled_ = false;
  JobProgress progress_;
};

}  // namespace dslide::coordinator
