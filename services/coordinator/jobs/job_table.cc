#include "services/coordinator/jobs/job_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/spec/spec_difference.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

absl::Status CheckSameJob(const JobSpec& known, const JobSpec& spec) {
  const auto differ = [&](const char* field, auto mine, auto theirs) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kJobDiffers,
        absl::StrCat("job ", spec.job, " runs with ", field, " ", mine, ", but this trainer has ",
                     theirs, "; use the same settings and data, or another job name"));
  };
  if (known.model != spec.model) return differ("model", known.model, spec.model);
  if (known.samples_per_epoch != spec.samples_per_epoch) {
    return differ("samples_per_epoch", known.samples_per_epoch, spec.samples_per_epoch);
  }
  if (known.chunk_samples != spec.chunk_samples) {
    return differ("chunk_samples", known.chunk_samples, spec.chunk_samples);
  }
  if (known.max_epochs != spec.max_epochs) {
    return differ("max_epochs", known.max_epochs, spec.max_epochs);
  }
  if (known.patience_epochs != spec.patience_epochs) {
    return differ("patience_epochs", known.patience_epochs, spec.patience_epochs);
  }
  if (known.evaluate != spec.evaluate) {
    return differ("evaluate", known.evaluate ? "true" : "false", spec.evaluate ? "true" : "false");
  }
  if (known.staged != spec.staged) {
    return differ("staged", known.staged ? "true" : "false", spec.staged ? "true" : "false");
  }
  if (known.seed != spec.seed) return differ("seed", known.seed, spec.seed);
  if (known.data_fingerprint != spec.data_fingerprint) {
    return differ("data_fingerprint", known.data_fingerprint, spec.data_fingerprint);
  }
  if (const auto training = FirstDifference(known.training, spec.training); training.has_value()) {
    return differ(training->field.c_str(), training->known, training->other);
  }
  if (known.rates.size() != spec.rates.size()) {
    return differ("number of rates", known.rates.size(), spec.rates.size());
  }
  for (size_t i = 0; i < spec.rates.size(); ++i) {
    if (const auto rate = FirstDifference(known.rates[i], spec.rates[i]); rate.has_value()) {
      return differ(absl::StrCat("rates[", i, "].", rate->field).c_str(), rate->known, rate->other);
    }
  }
  return absl::OkStatus();
}

// Jobs that have ended, the newest first, whose metrics are shown: labels must not grow for ever.
constexpr int64_t kFinishedShown = 20;

}  // namespace

JobTable::JobTable(const JobTableOptions& options, std::unique_ptr<JobStore> store,
                   const Clock* clock, Metrics* metrics)
    : options_(options), clock_(clock), metrics_(metrics), store_(std::move(store)) {
  AddMetrics();
}

absl::Status JobTable::Load() {
  const absl::MutexLock lock(&mu_);
  if (store_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<JobState> states, store_->Load());
  for (const JobState& state : states) {
    const JobSpec& spec = state.record.spec;
    last_number_ = std::max(last_number_, state.number);
    RETURN_IF_ERROR(Add(spec, state.number).Resume(state, clock_->Now()));
    jobs_.at(spec.job).kept = jobs_.at(spec.job).job->changes();
    LogInfo("job resumed", {{"job", spec.job},
                            {"epoch", state.record.epoch},
                            {"finished", state.record.finished},
                            {"leases", state.leases.size()}});
  }
  return absl::OkStatus();
}

absl::Status JobTable::Keep(const std::string& name) {
  Entry& entry = jobs_.at(name);
  if (store_ == nullptr || entry.kept == entry.job->changes()) return absl::OkStatus();
  JobState state = entry.job->State();
  state.number = entry.number;
  RETURN_IF_ERROR(store_->Put(state));
  entry.kept = entry.job->changes();
  return absl::OkStatus();
}

JobTable::~JobTable() { metrics_->RemoveCallbacks(this); }

void JobTable::AddMetrics() {
  const auto gauge = [this](const char* name, const char* help, const MetricLabels& labels,
                            std::function<double()> read) {
    metrics_->AddGaugeCallback(this, name, help, labels, std::move(read));
  };
  gauge("dslide_coordinator_jobs", "Training jobs by state.", {{"state", "running"}},
        [this] { return Count(false); });
  gauge("dslide_coordinator_jobs", "Training jobs by state.", {{"state", "finished"}},
        [this] { return Count(true); });
  gauge("dslide_coordinator_leases", "Leases that trainers hold.", {}, [this] {
    const absl::MutexLock lock(&mu_);
    double sum = 0;
    for (const auto& [name, entry] : jobs_) sum += static_cast<double>(entry.job->leases());
    return sum;
  });
  const auto of_jobs = [this](const char* name, const char* help,
                              std::optional<double> (*read)(const JobStatus& job)) {
    metrics_->AddGaugesCallback(this, name, help, [this, read] {
      Metrics::Samples samples;
      for (const JobStatus& job : Shown()) {
        const std::optional<double> value = read(job);
        if (!value.has_value()) continue;
        samples.push_back({{{"job_name", job.job}, {"model", job.model}}, *value});
      }
      return samples;
    });
  };
  AddJobMetrics(of_jobs);
  const auto counter = [this](const char* name, const char* help, int64_t JobCounters::*field) {
    metrics_->AddCounterCallback(this, name, help, {},
                                 [this, field] { return static_cast<double>(Counters().*field); });
  };
  counter("dslide_coordinator_leases_granted_total", "Leases given.", &JobCounters::leases_granted);
  counter("dslide_coordinator_leases_expired_total", "Leases taken back from silent trainers.",
          &JobCounters::leases_expired);
  counter("dslide_coordinator_late_reports_total",
          "Reports that did not count, since the chunk counted through another lease.",
          &JobCounters::late_reports);
  counter("dslide_coordinator_chunks_done_total", "Chunks of data trained.",
          &JobCounters::chunks_done);
  counter("dslide_coordinator_evaluations_done_total", "Evaluations reported.",
          &JobCounters::evaluations_done);
}

void JobTable::AddJobMetrics(const AddOfJobs& add) {
  using Value = std::optional<double>;
  add("dslide_coordinator_job_epoch", "Epoch of a job that is being trained, from 0.",
      [](const JobStatus& job) { return Value(job.epoch); });
  add("dslide_coordinator_job_max_epochs", "Epochs of a job at most.",
      [](const JobStatus& job) { return Value(job.max_epochs); });
  add("dslide_coordinator_job_samples", "Samples of a job that are trained, over all its epochs.",
      [](const JobStatus& job) {
        return Value(job.epoch * job.samples_per_epoch + job.samples_done);
      });
  add("dslide_coordinator_job_samples_per_second", "Pace of a job, all trainers together.",
      [](const JobStatus& job) { return Value(job.samples_per_second); });
  add("dslide_coordinator_job_time_left_seconds",
      "Until a job's last epoch, where its pace is known.", [](const JobStatus& job) {
        const auto left = job.time_left();
        return left.has_value() ? Value(absl::ToDoubleSeconds(*left)) : Value();
      });
  add("dslide_coordinator_job_loss", "Mean training loss of a job's epoch so far.",
      [](const JobStatus& job) { return job.loss; });
  add("dslide_coordinator_job_precision_at_1", "P@1 of a job on held-out points, last measured.",
      [](const JobStatus& job) { return job.last_metric(); });
  add("dslide_coordinator_job_best_precision_at_1", "Best P@1 of a job on held-out points.",
      [](const JobStatus& job) { return job.best_epoch < 0 ? Value() : Value(job.best_metric); });
  add("dslide_coordinator_job_trainers", "Trainers of a job that were heard of lately.",
      [](const JobStatus& job) { return Value(job.trainers); });
  add("dslide_coordinator_job_finished", "Whether a job has ended.",
      [](const JobStatus& job) { return Value(job.finished ? 1 : 0); });
}

std::vector<JobStatus> JobTable::Shown() const {
  std::vector<JobStatus> shown;
  int64_t finished = 0;
  const absl::MutexLock lock(&mu_);
  for (auto name = order_.rbegin(); name != order_.rend(); ++name) {
    JobStatus status = jobs_.at(*name).job->Status(clock_->Now());
    if (status.finished && ++finished > kFinishedShown) continue;
    shown.push_back(std::move(status));
  }
  return shown;
}

double JobTable::Count(bool finished) const {
  const absl::MutexLock lock(&mu_);
  return static_cast<double>(std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job.second.job->Status(clock_->Now()).finished == finished;
  }));
}

JobCounters JobTable::Counters() const {
  const absl::MutexLock lock(&mu_);
  JobCounters sum = removed_;
  for (const auto& [name, entry] : jobs_) sum += entry.job->counters();
  return sum;
}

absl::StatusOr<Job*> JobTable::Find(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found != jobs_.end()) return found->second.job.get();
  return StatusWithReason(
      absl::StatusCode::kNotFound, reason::kUnknownJob,
      absl::StrCat("no job \"", EscapeForLog(name, 80),
                   "\" is registered here; register it (a coordinator without a "
                   "data directory forgets jobs when it restarts)"));
}

Job& JobTable::Add(const JobSpec& spec, uint64_t number) {
  Entry& entry = jobs_[spec.job];
  entry.job = std::make_unique<Job>(spec, options_.timing, options_.first_lease);
  entry.number = number;
  order_.push_back(spec.job);
  return *entry.job;
}

absl::Status JobTable::Remove(const std::string& name) {
  if (store_ != nullptr) RETURN_IF_ERROR(store_->Remove(name));
  const auto found = jobs_.find(name);
  std::erase_if(order_, [&found](const std::string& other) { return other == found->first; });
  removed_ += found->second.job->counters();
  jobs_.erase(found);
  return absl::OkStatus();
}

absl::Status JobTable::MakeRoom() {
  if (static_cast<int64_t>(jobs_.size()) < options_.max_jobs) return absl::OkStatus();
  for (const std::string& name : order_) {
    if (!jobs_.at(name).job->Status(clock_->Now()).finished) continue;
    return Remove(name);
  }
  return OverloadStatus(reason::kTooManyJobs,
                        absl::StrCat(jobs_.size(), " jobs are running; wait for one to end"),
                        absl::Seconds(1));
}

absl::StatusOr<bool> JobTable::Register(
    const JobSpec& spec, const ClientId& client,
    absl::FunctionRef<absl::Status(const std::string&)> check_model) {
  RETURN_IF_ERROR(ValidateJobSpec(spec));
  const absl::MutexLock lock(&mu_);
  const auto known = jobs_.find(spec.job);
  if (known != jobs_.end()) {
    RETURN_IF_ERROR(CheckSameJob(known->second.job->spec(), spec));
    known->second.job->Join(client, clock_->Now());
    RETURN_IF_ERROR(Keep(spec.job));
    return false;
  }
  RETURN_IF_ERROR(check_model(spec.model));
  RETURN_IF_ERROR(MakeRoom());
  Add(spec, ++last_number_).Join(client, clock_->Now());
  RETURN_IF_ERROR(Keep(spec.job));
  LogInfo("job registered", {{"job", spec.job},
                             {"model", spec.model},
                             {"samples_per_epoch", spec.samples_per_epoch},
                             {"chunks", spec.NumChunks()}});
  return true;
}

bool JobTable::AnotherTrains(const JobSpec& spec) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const JobStatus status = entry.second.job->Status(clock_->Now());
    return status.model == spec.model && status.job != spec.job && !status.finished &&
           status.trainers > 0;
  });
}

absl::StatusOr<Work> JobTable::Acquire(const WorkRequest& request) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Job* const job, Find(request.job));
  ASSIGN_OR_RETURN(Work work, job->Acquire(request, clock_->Now()));
  RETURN_IF_ERROR(Keep(request.job));
  if (auto* const stage = std::get_if<StageWork>(&work);
      stage != nullptr && stage->best_epoch >= 0 && AnotherTrains(job->spec())) {
    LogWarning("the best epoch is not restored: another job trains the model",
               {{"job", request.job}, {"model", job->spec().model}});
    stage->best_epoch = -1;
  }
  return work;
}

absl::Status JobTable::Leave(const std::string& name, const ClientId& client) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Job* const job, Find(name));
  job->Leave(client, clock_->Now());
  return Keep(name);
}

absl::StatusOr<JobStatus> JobTable::Cancel(const std::string& name) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Job* const job, Find(name));
  job->Cancel();
  RETURN_IF_ERROR(Keep(name));
  LogInfo("job cancelled", {{"job", name}});
  return job->Status(clock_->Now());
}

absl::Status JobTable::Delete(const std::string& name) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const Job* const job, Find(name));
  if (!job->Status(clock_->Now()).finished) {
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kJobRuns,
        absl::StrCat("job ", name, " is not finished: cancel it first (dslide job cancel)"));
  }
  LogInfo("job deleted", {{"job", name}});
  return Remove(name);
}

absl::Status JobTable::CheckIdle(const std::string& model) const {
  for (const JobStatus& job : List()) {
    if (job.model != model || job.finished || job.trainers == 0) continue;
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kJobRuns,
        absl::StrCat("job ", job.job, " trains model ", model, " with ", job.trainers,
                     " trainers: cancel it first (dslide job cancel ", job.job, ")"));
  }
  return absl::OkStatus();
}

std::vector<JobStatus> JobTable::List() const {
  const absl::MutexLock lock(&mu_);
  std::vector<JobStatus> list;
  for (const auto& [name, entry] : jobs_) list.push_back(entry.job->Status(clock_->Now()));
  return list;
}

std::vector<JobRecord> JobTable::Records() const {
  const absl::MutexLock lock(&mu_);
  std::vector<JobRecord> records;
  for (const std::string& name : order_) records.push_back(jobs_.at(name).job->Record());
  return records;
}

absl::Status JobTable::Replace(const std::vector<JobRecord>& records) {
  const absl::MutexLock lock(&mu_);
  for (const std::string& name : std::deque<std::string>(order_)) {
    const JobSpec& spec = jobs_.at(name).job->spec();
    const bool stays = std::any_of(records.begin(), records.end(),
                                   [&](const JobRecord& record) { return record.spec == spec; });
    if (!stays) RETURN_IF_ERROR(Remove(name));
  }
  for (const JobRecord& record : records) {
    const auto known = jobs_.find(record.spec.job);
    Job& job = known == jobs_.end() ? Add(record.spec, ++last_number_) : *known->second.job;
    RETURN_IF_ERROR(job.Restore(record));
    RETURN_IF_ERROR(Keep(record.spec.job));
  }
  return absl::OkStatus();
}

absl::Status JobTable::RemoveOf(const std::string& model) {
  const absl::MutexLock lock(&mu_);
  for (const std::string& name : std::deque<std::string>(order_)) {
    if (jobs_.at(name).job->spec().model == model) RETURN_IF_ERROR(Remove(name));
  }
  return absl::OkStatus();
}

}  // namespace dslide::coordinator
