// The training jobs of a cluster, by name.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "services/coordinator/jobs/job.h"
#include "services/coordinator/jobs/job_store.h"

namespace dslide::coordinator {

struct JobTableOptions {
  JobTiming timing = {};
  // Leases of this process are numbered from here: higher than those of an earlier one, so that a
  // trainer's late report is never taken for another's.
  LeaseId first_lease = 1;
  // Jobs kept; the oldest finished ones are forgotten beyond it.
  int64_t max_jobs = 1000;
};

// Unknown jobs are NotFound UNKNOWN_JOB. Thread safety: safe from any thread.
class JobTable {
 public:
  // `clock` and `metrics` outlive it. store: null for a table without memory. What a call has
  // changed is durable when it returns OK; a call that could not write it may be repeated.
  JobTable(const JobTableOptions& options, std::unique_ptr<JobStore> store, const Clock* clock,
           Metrics* metrics);
  ~JobTable();

  // Brings the store's jobs back; once, before all other calls. Errors: those of JobStore::Load and
  // Job::Resume.
  absl::Status Load();

  // True when the job is new. Whether there is its model is asked under the lock of the table: one
  // that goes after that takes the job with it. Errors: those of ValidateJobSpec and of
  // `check_model`; InvalidArgument JOB_DIFFERS naming the field; ResourceExhausted TOO_MANY_JOBS.
  absl::StatusOr<bool> Register(const JobSpec& spec, const ClientId& client,
                                absl::FunctionRef<absl::Status(const std::string&)> check_model);
  // A completion restores nothing while another job trains the model. Errors: those of
  // Job::Acquire.
  absl::StatusOr<Work> Acquire(const WorkRequest& request);
  absl::Status Leave(const std::string& name, const ClientId& client);
  absl::StatusOr<JobStatus> Cancel(const std::string& name);
  // Errors: FailedPrecondition JOB_RUNS.
  absl::Status Delete(const std::string& name);

  // Whether no trainer of an unfinished job works with the model. Errors: FailedPrecondition
  // JOB_RUNS naming the job.
  absl::Status CheckIdle(const std::string& model) const;

  // By name.
  std::vector<JobStatus> List() const;
  // Of all jobs that were here, summed up: these never go back.
  JobCounters Counters() const;
  // By age.
  std::vector<JobRecord> Records() const;
  // Makes the jobs those of a checkpoint. Errors: those of Job::Restore; repeat it.
  absl::Status Replace(const std::vector<JobRecord>& records);
  // The jobs of a model that is gone.
  absl::Status RemoveOf(const std::string& model);

 private:
  using AddOfJobs = absl::FunctionRef<void(const char* name, const char* help,
                                           std::optional<double> (*read)(const JobStatus& job))>;
  void AddMetrics();
  static void AddJobMetrics(const AddOfJobs& add);
  // Those with metrics of their own.
  std::vector<JobStatus> Shown() const;
  double Count(bool finished) const;
  absl::StatusOr<Job*> Find(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Job& Add(const JobSpec& spec, uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnotherTrains(const JobSpec& spec) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Writes the job to the store unless nothing has changed.
  absl::Status Keep(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Keeps its counts, so that the metrics never go back.
  absl::Status Remove(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JobTableOptions options_;  // constant after construction
  const Clock* const clock_;       // self-synchronised
  Metrics* const metrics_;         // self-synchronised

  struct Entry {
    std::unique_ptr<Job> job;
    uint64_t number = 0;  // by age
    int64_t kept = -1;    // changes() of the job when it was last written
  };

  mutable absl::Mutex mu_;
  const std::unique_ptr<JobStore> store_ ABSL_PT_GUARDED_BY(mu_);
  std::map<std::string, Entry> jobs_ ABSL_GUARDED_BY(mu_);
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::string> order_ ABSL_GUARDED_BY(mu_);  // by age
  JobCounters removed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::coordinator
