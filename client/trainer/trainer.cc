#include "client/trainer/trainer.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/spec/spec_difference.h"

namespace dslide {
namespace {

constexpr int64_t kDefaultChunkBatches = 16;
// How soon stop_requested is heard while there is nothing to do.
constexpr absl::Duration kStopPoll = absl::Milliseconds(100);

// Points evaluated at once. An exact scan of so many scores ends within a call's deadline on a slow
// machine, too.
int64_t EvaluationBatch(int64_t batch_size, int64_t num_labels) {
  constexpr int64_t kScores = int64_t{1} << 26;
  return std::clamp<int64_t>(kScores / std::max<int64_t>(num_labels, 1), 1,
                             std::min<int64_t>(batch_size, 256));
}

int64_t ChunkSamples(const TrainingSpec& training) {
  return training.chunk_samples > 0 ? training.chunk_samples
                                    : kDefaultChunkBatches * training.batch_size;
}

}  // namespace

std::vector<int64_t> AllPoints(int64_t count) {
  std::vector<int64_t> points(static_cast<size_t>(count));
  std::iota(points.begin(), points.end(), int64_t{0});
  return points;
}

Trainer::Trainer(TrainerParts parts, TrainerOptions options)
    : parts_(parts), options_(std::move(options)), client_(NewClientId()) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerParts parts,
                                                         TrainerOptions options) {
  std::unique_ptr<Trainer> trainer(new Trainer(parts, std::move(options)));
  RETURN_IF_ERROR(trainer->Open());
  return trainer;
}

absl::Status Trainer::Open() {
  const ModelSpec& spec = parts_.spec;
  ASSIGN_OR_RETURN(const ClusterMap map, parts_.cluster.coordinator().GetClusterMap());
  restore_count_ = map.restore_count;
  if (parts_.network == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(streams_, parts_.cluster.OpenStreams(spec, client_));
  std::vector<StepChannel*> channels;
  for (const auto& stream : streams_) channels.push_back(stream.get());
  EvaluatorOptions evaluator;
  evaluator.batch_size = EvaluationBatch(spec.training.batch_size, parts_.network->num_labels());
  evaluator.parallelism = options_.parallelism;
  evaluator_ = std::make_unique<Evaluator>(
      *parts_.network, *parts_.preparer, channels,
      [this](const TopKCommand& query) { return parts_.cluster.TopK(query); }, evaluator);
  PipelineOptions pipeline;
  pipeline.in_flight_steps = spec.training.in_flight_steps;
  pipeline.seed = options_.seed;
  pipeline.parallelism = options_.parallelism;
  pipeline_ =
      std::make_unique<StepPipeline>(*parts_.network, channels, pipeline, &next_step_, parts_.clock,
                                     [this](const FinishedStep& step) { OnFinishedStep(step); });
  return absl::OkStatus();
}

absl::Status Trainer::JoinJob() {
  const TrainingSpec& training = parts_.spec.training;
  const bool has_epochs = parts_.network != nullptr;
  JobSpec job;
  job.job = parts_.cluster.options().job;
  job.model = parts_.spec.name;
  job.samples_per_epoch = parts_.split.num_training();
  job.chunk_samples = ChunkSamples(training);
  job.max_epochs = has_epochs ? training.max_epochs : 0;
  job.patience_epochs = training.patience_epochs;
  job.evaluate = has_epochs && parts_.split.num_validation() > 0;
  job.seed = options_.seed;
  job.data_fingerprint = parts_.data.Fingerprint();
  job.staged = parts_.stages != nullptr;
  job.training = training;
  job.rates = RatesOf(parts_.spec);
  RETURN_IF_ERROR(parts_.cluster.coordinator().RegisterJob(job, client_).status());
  joined_ = true;

  WorkFeedOptions feed;
  feed.job = job.job;
  feed.client = client_;
  feed.batch_size = training.batch_size;
  feed.seed = options_.seed;
  feed.max_steps = options_.max_steps == 0 ? 0 : options_.max_steps - report_.steps;
  feed.queued_items = static_cast<size_t>(training.in_flight_steps) + 4;
  feed.patience = options_.coordinator_patience;
  feed_ = std::make_unique<WorkFeed>(
      feed, parts_.data, parts_.split, parts_.preparer,
      [this](const WorkRequest& request) {
        return parts_.cluster.coordinator().AcquireWork(request);
      },
      [this](const std::string& message) { parts_.progress.Say(message); },
      [this, job] { return parts_.cluster.coordinator().RegisterJob(job, client_).status(); });
  return absl::OkStatus();
}

absl::Status Trainer::AwaitRestore(const absl::Status& why) {
  const absl::Duration deadline = parts_.clock.Now() + options_.coordinator_patience;
  // Only where there is something to go back to.
  const auto checkpoints = parts_.cluster.coordinator().ListClusterCheckpoints();
  if (!checkpoints.ok() || checkpoints->empty()) return why;
  for (;;) {
    const absl::StatusOr<ClusterMap> map = parts_.cluster.coordinator().GetClusterMap();
    if (map.ok() && map->restore_count != restore_count_) return absl::OkStatus();
    if (parts_.clock.Now() >= deadline) return why;
    if (options_.stop_requested && options_.stop_requested()) return why;
    absl::SleepFor(kStopPoll);
  }
}

absl::Status Trainer::BeginAnew(const absl::Status& why) {
  const std::string reason(ReasonOf(why));
  const bool lost = reason == "LOST_UPDATES" || reason == "UNKNOWN_MODEL";
  if (!lost && reason != "CLOSED_CLIENT" && reason != "UNKNOWN_CLIENT") return why;
  const int64_t done = report_.steps + stages_done_;
  if (done == work_at_beginning_) return why;  // it would never end
  if (lost) RETURN_IF_ERROR(AwaitRestore(why));
  // Waits while the cluster is being taken back.
  ASSIGN_OR_RETURN(const ClusterMap map, parts_.cluster.coordinator().GetClusterMap());
  parts_.progress.Say(absl::StrCat(
      map.restore_count != restore_count_ ? "NOTE: the cluster was taken back to a checkpoint"
                                          : "NOTE: this client was retired",
      "; beginning anew with the work that is open (", why.message(), ")"));
  Leave();
  chunks_.clear();
  work_at_beginning_ = done;
  ++report_.new_beginnings;
  client_ = NewClientId();
  if (parts_.stages != nullptr) RETURN_IF_ERROR(parts_.stages->Reopen());
  RETURN_IF_ERROR(Open());
  return JoinJob();
}

void Trainer::Leave() {
  std::thread leave([this] {
    feed_.reset();
    if (!joined_) return;
    joined_ = false;
    parts_.cluster.coordinator().LeaveJob(parts_.cluster.options().job, client_).IgnoreError();
  });
  CloseStreams(streams_);
  leave.join();
  if (pipeline_ != nullptr) report_.stages += pipeline_->seconds();
  pipeline_ = nullptr;
  evaluator_ = nullptr;
  streams_.clear();
}

// Whoever cannot be told will find out by itself: leases run out, clients are forgotten. All are
// told at the same time, so that services that are gone do not add up.
Trainer::~Trainer() { Leave(); }

absl::StatusOr<TrainingReport> Trainer::Run() {
  RETURN_IF_ERROR(JoinJob());
  const absl::Duration start = parts_.clock.Now();
  window_.start = start;
  for (bool more = true; more;) {
    if (options_.stop_requested && options_.stop_requested()) {
      RETURN_IF_ERROR(Drain());
      report_.interrupted = true;
      break;
    }
    const absl::StatusOr<bool> handled = Handle(feed_->NextWithin(kStopPoll));
    if (handled.ok()) {
      more = *handled;
    } else {
      RETURN_IF_ERROR(BeginAnew(handled.status()));
    }
  }
  report_.seconds = absl::ToDoubleSeconds(parts_.clock.Now() - start) - evaluation_seconds_;
  if (epoch_samples_ > 0) report_.last_loss = epoch_loss_ / static_cast<double>(epoch_samples_);
  TrainingReport report = report_;
  if (pipeline_ != nullptr) report.stages += pipeline_->seconds();
  if (!report.interrupted && !report.stopped_at_step_limit) parts_.progress.OnFinished();
  return report;
}

absl::Status Trainer::Drain() {
  return pipeline_ == nullptr ? absl::OkStatus() : pipeline_->Drain();
}

absl::Status Trainer::RunStage(const StageWork& work) {
  const bool completes = work.stage == JobStage::kCompletion;
  LeaseReport report = {.lease = work.lease};
  if (completes) {
    ASSIGN_OR_RETURN(report.best_restored, RestoreBest(work.best_epoch));
  }
  if (parts_.stages != nullptr) {
    RETURN_IF_ERROR(completes ? parts_.stages->Complete() : parts_.stages->Prepare());
    ++stages_done_;
  }
  feed_->Finish(report);
  window_ = Window();
  window_.start = parts_.clock.Now();
  return absl::OkStatus();
}

absl::StatusOr<bool> Trainer::Handle(FeedItem item) {
  if (auto* batch = std::get_if<PreparedBatch>(&item)) {
    RETURN_IF_ERROR(TrainBatch(std::move(*batch)));
    return true;
  }
  if (const auto* end = std::get_if<ChunkEnd>(&item)) {
    chunks_[end->lease].complete = true;
    ReportIfDone(end->lease);
    return true;
  }
  if (std::holds_alternative<DrainSteps>(item)) {
    RETURN_IF_ERROR(Drain());
    return true;
  }
  if (const auto* evaluation = std::get_if<EvaluationWork>(&item)) {
    RETURN_IF_ERROR(Drain());
    RETURN_IF_ERROR(RunEvaluation(*evaluation));
    return true;
  }
  if (const auto* stage = std::get_if<StageWork>(&item)) {
    RETURN_IF_ERROR(Drain());
    RETURN_IF_ERROR(RunStage(*stage));
    return true;
  }
  if (const auto* finished = std::get_if<NoMoreWork>(&item)) {
    RETURN_IF_ERROR(Drain());
    report_.best_metric = finished->best_metric;
    report_.best_epoch = finished->best_epoch;
    report_.best_restored = finished->best_restored;
    report_.cancelled = finished->cancelled;
    return false;
  }
  if (std::holds_alternative<StepLimitReached>(item)) {
    RETURN_IF_ERROR(Drain());
    report_.stopped_at_step_limit = true;
    return false;
  }
  if (std::holds_alternative<NothingYet>(item)) return true;
  return std::get<absl::Status>(item);
}

absl::Status Trainer::TrainBatch(PreparedBatch batch) {
  ChunkState& chunk = chunks_[batch.lease];
  chunk.report.lease = batch.lease;
  ++chunk.submitted;
  return pipeline_->Submit(std::move(batch));
}

void Trainer::OnFinishedStep(const FinishedStep& step) {
  ChunkState& chunk = chunks_[step.lease];
  ++chunk.finished;
  chunk.report.loss_sum += step.loss_sum;
  chunk.report.samples += step.samples;
  if (report_.steps == 0 && step.samples > 0) {
    report_.first_loss = step.loss_sum / static_cast<double>(step.samples);
  }
  ++report_.steps;
  report_.samples += step.samples;
  report_.active_pairs += step.active_pairs;
  report_.distinct_rows += step.distinct_rows;
  report_.rejected_rows += step.rejected_rows;
  if (step.epoch != loss_epoch_) {
    loss_epoch_ = step.epoch;
    ++report_.epochs;
    epoch_samples_ = 0;
    epoch_loss_ = 0;
    report_.recall = RecallCount();
  }
  epoch_samples_ += step.samples;
  epoch_loss_ += step.loss_sum;
  report_.recall.Add(step.recall);
  if (parts_.metrics != nullptr) {
    parts_.metrics->OnStep(step, parts_.network->dense_bytes_per_step());
    parts_.metrics->OnStages(pipeline_->seconds());
  }
  if (options_.on_step) options_.on_step(step);
  ShowProgress(step);
  ReportIfDone(step.lease);
}

void Trainer::ReportIfDone(uint64_t lease) {
  const auto it = chunks_.find(lease);
  if (it == chunks_.end() || !it->second.complete) return;
  if (it->second.finished < it->second.submitted) return;
  it->second.report.lease = lease;
  feed_->Finish(it->second.report);
  chunks_.erase(it);
}

void Trainer::ShowProgress(const FinishedStep& step) {
  window_.samples += step.samples;
  ++window_.steps;
  window_.loss += step.loss_sum;
  window_.active_pairs += step.active_pairs;
  window_.distinct_rows += step.distinct_rows;
  window_.recall.Add(step.recall);
  const absl::Duration now = parts_.clock.Now();
  if (now - window_.start < parts_.progress.interval() || window_.samples == 0) return;
  TrainingProgress progress;
  progress.epoch = step.epoch;
  progress.max_epochs = parts_.spec.training.max_epochs;
  progress.epoch_samples_done = epoch_samples_;
  progress.samples_per_epoch = parts_.split.num_training();
  progress.steps = report_.steps;
  const auto samples = static_cast<double>(window_.samples);
  progress.recent_loss = window_.loss / samples;
  progress.samples_per_second = samples / absl::ToDoubleSeconds(now - window_.start);
  progress.active_rows_per_sample = static_cast<double>(window_.active_pairs) / samples;
  progress.distinct_rows_per_batch =
      static_cast<double>(window_.distinct_rows) / static_cast<double>(window_.steps);
  progress.recall = window_.recall;
  parts_.progress.OnStep(progress);
  window_ = Window();
  window_.start = now;
}

// The shards have the model, and tell a coordinator that has forgotten it.
absl::Status Trainer::OnceKnown(const std::function<absl::Status()>& call) {
  const absl::Duration deadline = parts_.clock.Now() + options_.coordinator_patience;
  for (;;) {
    absl::Status status = call();
    if (ReasonOf(status) != reason::kUnknownModel || parts_.clock.Now() >= deadline) return status;
    if (options_.stop_requested && options_.stop_requested()) return status;
    absl::SleepFor(kStopPoll);
  }
}

absl::Status Trainer::RunEvaluation(const EvaluationWork& work) {
  const absl::Duration start = parts_.clock.Now();
  std::vector<int64_t> points;
  for (int64_t i = 0; i < parts_.split.num_validation(); ++i) {
    points.push_back(parts_.split.ValidationPoint(i));
  }
  ASSIGN_OR_RETURN(const std::vector<AccuracyAtK> accuracy,
                   evaluator_->Evaluate(parts_.data, points, BatchUse::kValidation,
                                        RankingMetrics({1}), &next_step_, nullptr));
  const double p_at_1 = accuracy.front().precision;
  const bool best = p_at_1 > work.metric_to_beat;
  parts_.progress.OnEvaluation(work.epoch, p_at_1, best);
  if (parts_.metrics != nullptr) parts_.metrics->OnEvaluation(p_at_1);
  if (best && can_checkpoint_) {
    absl::Status kept = OnceKnown([this] {
      return parts_.cluster.coordinator()
          .CreateCheckpoint(parts_.spec.name, BestCheckpointOf(parts_.cluster.options().job))
          .status();
    });
    if (absl::IsFailedPrecondition(kept) || absl::IsUnimplemented(kept)) {
      can_checkpoint_ = false;
      parts_.progress.Say(absl::StrCat(
          "NOTE: the best epoch cannot be kept, the result will be the last one: ", kept.message(),
          ". Start the shards with a data directory to keep the best."));
    } else if (!kept.ok()) {
      return kept;
    }
  }
  LeaseReport report;
  report.lease = work.lease;
  report.metric = p_at_1;
  feed_->Finish(report);
  const absl::Duration now = parts_.clock.Now();
  evaluation_seconds_ += absl::ToDoubleSeconds(now - start);
  window_ = Window();
  window_.start = now;
  return absl::OkStatus();
}

absl::StatusOr<bool> Trainer::RestoreBest(int64_t best_epoch) {
  const absl::Duration start = parts_.clock.Now();
  if (best_epoch < 0 || !can_checkpoint_) return false;
  const absl::Status restored = OnceKnown([this] {
    return parts_.cluster.coordinator()
        .RestoreCheckpoint(parts_.spec.name, BestCheckpointOf(parts_.cluster.options().job))
        .status();
  });
  if (absl::IsNotFound(restored) || absl::IsFailedPrecondition(restored)) {
    parts_.progress.Say(
        absl::StrCat("NOTE: the best epoch (", best_epoch + 1,
                     ") was not kept, the result is the last one: ", restored.message()));
    return false;
  }
  RETURN_IF_ERROR(restored);
  evaluation_seconds_ += absl::ToDoubleSeconds(parts_.clock.Now() - start);
  return true;
}

absl::StatusOr<std::vector<AccuracyAtK>> Trainer::Evaluate(
    const Dataset& data, RankingMetrics metrics, const std::function<void(int64_t)>& progress) {
  return evaluator_->Evaluate(data, AllPoints(data.num_points()), BatchUse::kEvaluation,
                              std::move(metrics), &next_step_, progress);
}

}  // namespace dslide
