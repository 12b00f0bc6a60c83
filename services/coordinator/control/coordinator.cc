#include "services/coordinator/control/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/partition/slot_map.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/system/log.h"
#include "services/coordinator/membership/names.h"

namespace dslide::coordinator {
namespace {

// The mark is there for as long as anybody may have to go back.
bool RollbackPending(const RestoreMark* mark) {
  return mark != nullptr && mark->checkpoint_id().has_value();
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, const Clock* clock,
                         std::unique_ptr<ShardAdmin> shards, std::unique_ptr<CatalogStore> store,
                         std::unique_ptr<ManifestStore> manifests, Metrics* metrics)
    : options_(options),
      clock_(clock),
      shards_(std::move(shards)),
      metrics_(metrics),
      restore_mark_(manifests == nullptr ? nullptr : &manifests->restore_mark()),
      cuts_(manifests == nullptr
                ? nullptr
                : std::make_unique<ClusterCheckpoints>(options.checkpoints, shards_.get(), clock,
                                                       std::move(manifests))),
      store_(std::move(store)),
      membership_(options.membership, clock),
      figures_{.last = clock->Now(),
               .scrubbed = clock->Now(),
               .costs = CheckpointCosts(static_cast<size_t>(options.checkpoints.full_every))},
      restore_count_(cuts_ == nullptr ? 0 : cuts_->restore_count()) {
  if (restore_mark_ == nullptr || !restore_mark_->checkpoint_id().has_value()) return;
  LogWarning("the cluster was to be taken back to a checkpoint when the coordinator ended",
             {{"checkpoint_id", *restore_mark_->checkpoint_id()}});
  rollback_requested_ = true;
  restoring_ = restore_mark_->begun();
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(
    const CoordinatorOptions& options, const Clock* clock, std::unique_ptr<ShardAdmin> shards,
    std::unique_ptr<CatalogStore> store, std::unique_ptr<ManifestStore> manifests,
    Metrics* metrics) {
  const bool scheduled =
      manifests != nullptr && options.schedule.mode != CheckpointSchedule::Mode::kOff;
  const bool scrubbed = manifests != nullptr && options.scrub_interval > absl::ZeroDuration();
  std::unique_ptr<Coordinator> coordinator(new Coordinator(
      options, clock, std::move(shards), std::move(store), std::move(manifests), metrics));
  RETURN_IF_ERROR(coordinator->LoadStore());
  coordinator->AddMetrics();
  coordinator->sync_thread_ = std::thread([self = coordinator.get()] { self->SyncLoop(); });
  if (scheduled) {
    coordinator->schedule_thread_ =
        std::thread([self = coordinator.get()] { self->ScheduleLoop(); });
  }
  if (scrubbed) {
    coordinator->scrub_thread_ = std::thread([self = coordinator.get()] { self->ScrubLoop(); });
  }
  return coordinator;
}

absl::Status Coordinator::LoadStore() {
  const absl::MutexLock lock(&mu_);
  if (store_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const CatalogContent content, store_->Load());
  for (const ModelSpec& spec : content.models) RETURN_IF_ERROR(catalog_.Add(spec).status());
  if (content.membership.has_value()) {
    RETURN_IF_ERROR(membership_.Restore(*content.membership, !catalog_.empty()));
    for (const ShardView& shard : membership_.Shards()) unseen_.insert(shard.shard);
  }
  LogInfo("catalog loaded", {{"models", catalog_.size()},
                             {"shards", membership_.Shards().size()},
                             {"topology_version", membership_.topology_version()}});
  return absl::OkStatus();
}

Coordinator::~Coordinator() {
  Stop();
  if (sync_thread_.joinable()) sync_thread_.join();
  if (schedule_thread_.joinable()) schedule_thread_.join();
  if (scrub_thread_.joinable()) scrub_thread_.join();
  metrics_->RemoveCallbacks(this);
}

void Coordinator::Stop() {
  shards_->Stop();
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
}

// --- Metrics
// ---------------------------------------------------------------------------------------

double Coordinator::CountShards(ShardHealth health) const {
  const absl::MutexLock lock(&mu_);
  const auto shards = membership_.Shards();
  return static_cast<double>(
      std::count_if(shards.begin(), shards.end(),
                    [health](const ShardView& shard) { return shard.health == health; }));
}

double Coordinator::CountJobs(bool finished) const {
  const absl::MutexLock lock(&mu_);
  return static_cast<double>(std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job.second->Progress(clock_->Now()).finished == finished;
  }));
}

double Coordinator::SumJobCounters(int64_t JobCounters::*counter) const {
  const absl::MutexLock lock(&mu_);
  int64_t sum = forgotten_.*counter;
  for (const auto& [name, job] : jobs_) sum += job->counters().*counter;
  return static_cast<double>(sum);
}

void Coordinator::AddCheckpointMetrics() {
  failed_checkpoints_ =
      metrics_->AddCounter("dslide_coordinator_checkpoint_failures_total",
                           "Cluster checkpoints that were begun and not committed.");
  const auto gauge = [this](const char* name, const char* help, std::function<double()> read) {
    metrics_->AddGaugeCallback(this, name, help, {}, std::move(read));
  };
  gauge("dslide_coordinator_checkpoint_id",
        "Number of the newest cluster checkpoint of this process; 0 before the first.", [this] {
          const absl::MutexLock lock(&mu_);
          return static_cast<double>(figures_.last_checkpoint_id);
        });
  gauge("dslide_coordinator_checkpoint_age_seconds",
        "Since the newest cluster checkpoint of this process, or its start.", [this] {
          const absl::MutexLock lock(&mu_);
          return absl::ToDoubleSeconds(clock_->Now() - figures_.last);
        });
  gauge("dslide_coordinator_checkpoint_duration_seconds",
        "What the newest cluster checkpoint took, from the freeze until it was committed.", [this] {
          const absl::MutexLock lock(&mu_);
          return absl::ToDoubleSeconds(figures_.cost);
        });
  gauge("dslide_coordinator_checkpoint_stall_seconds",
        "How long trainers stood still for the newest cluster checkpoint.", [this] {
          const absl::MutexLock lock(&mu_);
          return absl::ToDoubleSeconds(figures_.stall);
        });
  gauge("dslide_coordinator_checkpoints_damaged",
        "Committed cluster checkpoints that the last verification found damaged.", [this] {
          const absl::MutexLock lock(&mu_);
          return static_cast<double>(figures_.damaged);
        });
  gauge("dslide_coordinator_checkpoint_scrub_age_seconds",
        "Since every committed cluster checkpoint was last read and compared, or the start.",
        [this] {
          const absl::MutexLock lock(&mu_);
          return absl::ToDoubleSeconds(clock_->Now() - figures_.scrubbed);
        });
  const auto sum = [this](const char* name, const char* help, const char* kind,
                          CheckpointFigures::Sum CheckpointFigures::*of,
                          int64_t CheckpointFigures::Sum::*what) {
    metrics_->AddCounterCallback(this, name, help, {{"kind", kind}}, [this, of, what] {
      const absl::MutexLock lock(&mu_);
      return static_cast<double>(figures_.*of.*what);
    });
  };
  using Figures = CheckpointFigures;
  for (const auto& [kind, of] :
       {std::pair("full", &Figures::full), std::pair("incremental", &Figures::incremental)}) {
    sum("dslide_coordinator_checkpoints_committed_total",
        "Cluster checkpoints committed: with all rows, or built on the one before by some shard.",
        kind, of, &Figures::Sum::checkpoints);
    sum("dslide_coordinator_checkpoint_written_bytes_total",
        "Bytes that shards wrote for them, without those shared with an earlier one.", kind, of,
        &Figures::Sum::bytes);
  }
}

void Coordinator::AddMetrics() {
  recreated_models_ = metrics_->AddCounter(
      "dslide_coordinator_models_recreated_total",
      "Models made afresh on a shard that came back without them; their rows there were lost.");
  metrics_->AddGauge("dslide_coordinator_expected_shards", "Shards the cluster is made of.")
      .Set(static_cast<double>(options_.membership.expected_shards));
  const auto gauge = [this](const char* name, const char* help, const MetricLabels& labels,
                            std::function<double()> read) {
    metrics_->AddGaugeCallback(this, name, help, labels, std::move(read));
  };
  for (const ShardHealth health : {ShardHealth::kAlive, ShardHealth::kLost, ShardHealth::kLeft}) {
    gauge("dslide_coordinator_registered_shards", "Registered shards by health.",
          {{"health", ShardHealthName(health)}}, [this, health] { return CountShards(health); });
  }
  gauge("dslide_coordinator_topology_version", "Version of the slot map; 0 before the first.", {},
        [this] {
          const absl::MutexLock lock(&mu_);
          return static_cast<double>(membership_.topology_version());
        });
  AddSlotMetrics();
  gauge("dslide_coordinator_models", "Registered models.", {}, [this] {
    const absl::MutexLock lock(&mu_);
    return static_cast<double>(catalog_.size());
  });
  gauge("dslide_coordinator_jobs", "Training jobs by state.", {{"state", "running"}},
        [this] { return CountJobs(false); });
  gauge("dslide_coordinator_jobs", "Training jobs by state.", {{"state", "finished"}},
        [this] { return CountJobs(true); });
  gauge("dslide_coordinator_leases", "Leases that trainers hold.", {}, [this] {
    const absl::MutexLock lock(&mu_);
    double sum = 0;
    for (const auto& [name, job] : jobs_) {
      sum += static_cast<double>(job->Progress(clock_->Now()).leases);
    }
    return sum;
  });
  AddCheckpointMetrics();
  const auto counter = [this](const char* name, const char* help, int64_t JobCounters::*field) {
    metrics_->AddCounterCallback(this, name, help, {},
                                 [this, field] { return SumJobCounters(field); });
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

double Coordinator::SlotsOf(ShardId shard) const {
  const absl::MutexLock lock(&mu_);
  if (slots_version_ != membership_.topology_version()) {
    slots_version_ = membership_.topology_version();
    slots_.assign(static_cast<size_t>(options_.membership.expected_shards), 0);
    const absl::StatusOr<ClusterMap> map = membership_.Map();
    const absl::StatusOr<SlotMap> dealt = map.ok() ? map->Slots(kDefaultNumSlots) : map.status();
    if (!dealt.ok()) {
      slots_version_ = 0;  // a shard is missing: look again next time
      return 0;
    }
    for (const ShardId owner : dealt->owners()) ++slots_[static_cast<size_t>(owner.value())];
  }
  const auto at = static_cast<size_t>(shard.value());
  return at < slots_.size() ? static_cast<double>(slots_[at]) : 0;
}

void Coordinator::AddSlotMetrics() {
  for (int64_t i = 0; i < options_.membership.expected_shards; ++i) {
    const ShardId shard(static_cast<int32_t>(i));
    metrics_->AddGaugeCallback(
        this, "dslide_coordinator_slots",
        absl::StrCat("Slots of a table of ", kDefaultNumSlots,
                     " that each shard owns; 0 before all shards have registered."),
        {{"shard", absl::StrCat(i)}}, [this, shard] { return SlotsOf(shard); });
  }
}

// --- Membership
// ------------------------------------------------------------------------------------

absl::StatusOr<Ownership> Coordinator::RegisterShard(const ShardRegistration& request,
                                                     const std::vector<ModelSpec>& models) {
  const absl::MutexLock lock(&mu_);
  for (const ModelSpec& spec : models) {
    const auto is_new = catalog_.Check(spec);
    if (is_new.ok()) continue;
    return StatusWithReason(
        is_new.status().code(), ReasonOf(is_new.status()),
        absl::StrCat("the shard at ", EscapeForLog(request.address, 80), " holds model \"",
                     EscapeForLog(spec.name, 80), "\": ", is_new.status().message()));
  }
  ASSIGN_OR_RETURN(Ownership owner, membership_.Register(request, !catalog_.empty()));
  // One that a crash has taken the rows of has fewer models than the cluster. Before the generation
  // is kept: it is news only once.
  if (owner.is_new && restore_mark_ != nullptr && LacksModels(models)) {
    RETURN_IF_ERROR(restore_mark_->Want());
    rollback_requested_ = true;
  }
  if (store_ != nullptr) RETURN_IF_ERROR(store_->PutMembership(membership_.Record()));
  for (const ModelSpec& spec : models) {
    ASSIGN_OR_RETURN(const bool is_new, catalog_.Check(spec));
    if (!is_new) continue;
    if (store_ != nullptr) RETURN_IF_ERROR(store_->PutModel(spec));
    RETURN_IF_ERROR(catalog_.Add(spec).status());
    LogInfo("model adopted from a shard", {{"model", spec.name}, {"shard", owner.shard.value()}});
  }
  if (owner.is_new) {
    LogInfo("shard registered", {{"shard", owner.shard.value()},
                                 {"generation", owner.generation},
                                 {"address", request.address},
                                 {"weight", request.capacity_weight},
                                 {"models", models.size()},
                                 {"topology_version", membership_.topology_version()}});
    to_sync_[owner.shard] = owner.generation;
  }
  owner.rollback_pending = RollbackPending(restore_mark_);
  return owner;
}

bool Coordinator::LacksModels(const std::vector<ModelSpec>& models) const {
  const std::vector<ModelSpec> all = catalog_.List();
  return std::any_of(all.begin(), all.end(), [&](const ModelSpec& known) {
    return std::none_of(models.begin(), models.end(),
                        [&](const ModelSpec& spec) { return spec.name == known.name; });
  });
}

absl::StatusOr<HeartbeatAnswer> Coordinator::Heartbeat(ShardId shard, uint64_t generation,
                                                       int64_t memory_bytes,
                                                       int64_t applied_commands) {
  const absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(membership_.Heartbeat(shard, generation, memory_bytes, applied_commands));
  // One that registered right before the last coordinator ended may still lack models.
  if (unseen_.erase(shard) > 0) to_sync_.try_emplace(shard, generation);
  return HeartbeatAnswer{.topology_version = membership_.topology_version(),
                         .rollback_pending = RollbackPending(restore_mark_)};
}

absl::Status Coordinator::DeregisterShard(ShardId shard, uint64_t generation) {
  const absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(membership_.Deregister(shard, generation));
  to_sync_.erase(shard);
  LogInfo("shard left", {{"shard", shard.value()}, {"generation", generation}});
  return store_ == nullptr ? absl::OkStatus() : store_->PutMembership(membership_.Record());
}

absl::StatusOr<ClusterMap> Coordinator::Map() const {
  const absl::MutexLock lock(&mu_);
  if (restoring_) {
    return StatusWithReason(
        absl::StatusCode::kUnavailable, reason::kNotAllShards,
        "the cluster is being taken back to a checkpoint: ask again in a moment");
  }
  return FullMap();
}

absl::StatusOr<ClusterMap> Coordinator::FullMap() const {
  ASSIGN_OR_RETURN(ClusterMap map, membership_.Map());
  map.restore_count = restore_count_;
  return map;
}

// --- Jobs
// ------------------------------------------------------------------------------------------

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
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Job*> Coordinator::FindJob(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found != jobs_.end()) return found->second.get();
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownJob,
                          absl::StrCat("no job \"", EscapeForLog(name, 80),
                                       "\" is registered here; register it (a coordinator forgets "
                                       "jobs when it restarts)"));
}

void Coordinator::ForgetJob(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  const JobCounters& counters = found->second->counters();
  forgotten_.leases_granted += counters.leases_granted;
  forgotten_.leases_expired += counters.leases_expired;
  forgotten_.late_reports += counters.late_reports;
  forgotten_.chunks_done += counters.chunks_done;
  forgotten_.evaluations_done += counters.evaluations_done;
  jobs_.erase(found);
  std::erase(job_order_, name);
}

absl::Status Coordinator::MakeRoomForJob() {
  if (static_cast<int64_t>(jobs_.size()) < options_.max_jobs) return absl::OkStatus();
  for (const std::string& name : job_order_) {
    if (!jobs_.at(name)->Progress(clock_->Now()).finished) continue;
    ForgetJob(std::string(name));
    return absl::OkStatus();
  }
  return OverloadStatus(reason::kTooManyJobs,
                        absl::StrCat(jobs_.size(), " jobs are running; wait for one to end"),
                        absl::Seconds(1));
}

absl::StatusOr<bool> Coordinator::RegisterJob(const JobSpec& spec, const ClientId& client) {
  RETURN_IF_ERROR(spec.Validate());
  const absl::MutexLock lock(&mu_);
  const auto known = jobs_.find(spec.job);
  if (known != jobs_.end()) {
    RETURN_IF_ERROR(CheckSameJob(known->second->spec(), spec));
    known->second->Join(client, clock_->Now());
    return false;
  }
  if (catalog_.Find(spec.model) == nullptr) return UnknownModel(spec.model);
  RETURN_IF_ERROR(MakeRoomForJob());
  auto job = std::make_unique<Job>(spec, options_.timing, options_.first_lease);
  job->Join(client, clock_->Now());
  jobs_.emplace(spec.job, std::move(job));
  job_order_.push_back(spec.job);
  LogInfo("job registered", {{"job", spec.job},
                             {"model", spec.model},
                             {"samples_per_epoch", spec.samples_per_epoch},
                             {"chunks", spec.NumChunks()}});
  return true;
}

absl::StatusOr<Work> Coordinator::AcquireWork(const std::string& name, const WorkRequest& request) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Job* const job, FindJob(name));
  return job->Acquire(request, clock_->Now());
}

absl::Status Coordinator::LeaveJob(const std::string& name, const ClientId& client) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Job* const job, FindJob(name));
  job->Leave(client, clock_->Now());
  return absl::OkStatus();
}

// --- Status
// ----------------------------------------------------------------------------------------

ClusterStatus Coordinator::Status() const {
  const absl::MutexLock lock(&mu_);
  ClusterStatus status{.topology_version = membership_.topology_version(),
                       .expected_shards = options_.membership.expected_shards,
                       .shards = membership_.Shards(),
                       .models = {},
                       .jobs = {},
                       .restore_count = restore_count_};
  if (cuts_ != nullptr) {
    const CheckpointSchedule& schedule = options_.schedule;
    status.checkpoints =
        CheckpointStatus{.last_checkpoint_id = figures_.last_checkpoint_id,
                         .age = clock_->Now() - figures_.last,
                         .interval = schedule.mode == CheckpointSchedule::Mode::kOff
                                         ? absl::ZeroDuration()
                                         : schedule.PauseAfter(figures_.costs.Mean()),
                         .failures = figures_.failures,
                         .scrub_age = clock_->Now() - figures_.scrubbed,
                         .scrub_interval = options_.scrub_interval};
  }
  for (const ModelSpec& spec : catalog_.List()) status.models.push_back(spec.name);
  for (const auto& [name, job] : jobs_) {
    status.jobs.push_back({job->spec(), job->Progress(clock_->Now())});
  }
  return status;
}

}  // namespace dslide::coordinator
