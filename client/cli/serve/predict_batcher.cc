#include "client/cli/serve/predict_batcher.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"

namespace dslide::cli {
namespace {

// What a full queue asks callers to wait: a few batches' time of a large model.
constexpr absl::Duration kRetryAfter = absl::Milliseconds(100);

int64_t QueriesOf(const RankJob& job) { return static_cast<int64_t>(job.queries.size()); }

bool HasHidden(const RankJob& job) { return !job.queries.front().hidden.empty(); }

std::vector<double> BatchBuckets() { return {1, 2, 4, 8, 16, 32, 64, 128, 256}; }

}  // namespace

PredictBatcher::PredictBatcher(BatcherOptions options, RankQueries rank, Metrics& metrics,
                               const Clock& clock)
    : options_(options), rank_(std::move(rank)), clock_(clock) {
  batch_queries_ = metrics.AddHistogram("dslide_serve_batch_queries",
                                        "Queries that were ranked together.", {}, BatchBuckets());
  queue_seconds_ = metrics.AddHistogram("dslide_serve_queue_seconds",
                                        "Time from a request's arrival until it is ranked.");
  rank_seconds_ =
      metrics.AddHistogram("dslide_serve_rank_seconds", "Time to rank the queries of a batch.");
  constexpr char kRefused[] = "dslide_serve_refused_requests_total";
  constexpr char kRefusedHelp[] =
      "Requests that were not ranked, by reason: the queue was full, or the caller had gone or had "
      "no time left.";
  full_ = metrics.AddCounter(kRefused, kRefusedHelp, {{"reason", "queue_full"}});
  late_ = metrics.AddCounter(kRefused, kRefusedHelp, {{"reason", "too_late"}});
  scored_rows_ = metrics.AddCounter("dslide_serve_scored_rows_total",
                                    "Rows of the head, or candidates of a memory, that were "
                                    "scored, over all queries.");
  queue_ = metrics.AddGauge("dslide_serve_queue_queries", "Queries that wait to be ranked.");
  thread_ = std::thread([this] { Run(); });
}

PredictBatcher::~PredictBatcher() { Stop(); }

void PredictBatcher::Stop() {
  {
    const absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void PredictBatcher::Submit(RankJob job) {
  absl::Status refused;
  {
    const absl::MutexLock lock(&mu_);
    const int64_t queries = QueriesOf(job);
    if (stopped_) {
      refused = StatusWithReason(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                                 "this server stops: ask another one");
    } else if (waiting_queries_ > 0 && waiting_queries_ + queries > options_.max_queue) {
      // A request of any size may wait alone.
      full_.Increment();
      refused = OverloadStatus(
          reason::kQueueFull,
          absl::StrCat(waiting_queries_, " queries wait already, and at most ", options_.max_queue,
                       " may (--max-queue): ask again later, or another server"),
          kRetryAfter);
    } else {
      waiting_queries_ += queries;
      queue_.Set(static_cast<double>(waiting_queries_));
      waiting_.push_back({std::move(job), clock_.Now(), !ranking_});
      return;
    }
  }
  job.done(refused);
}

bool PredictBatcher::FullOrStopped() const {
  return stopped_ || waiting_queries_ >= options_.max_batch;
}

PredictBatcher::Jobs PredictBatcher::TakeBatch() {
  const absl::MutexLock lock(&mu_);
  ranking_ = false;
  mu_.Await(absl::Condition(
      +[](PredictBatcher* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) {
        return self->stopped_ || !self->waiting_.empty();
      },
      this));
  if (!waiting_.empty() && !waiting_.front().at_once) {
    mu_.AwaitWithTimeout(absl::Condition(this, &PredictBatcher::FullOrStopped),
                         waiting_.front().since + options_.max_wait - clock_.Now());
  }
  Jobs batch;
  const absl::Duration now = clock_.Now();
  int64_t queries = 0;
  while (!waiting_.empty()) {
    const int64_t more = QueriesOf(waiting_.front().job);
    if (!batch.empty() && queries + more > options_.max_batch) break;
    queries += more;
    queue_seconds_.Observe(absl::ToDoubleSeconds(now - waiting_.front().since));
    batch.push_back(std::move(waiting_.front().job));
    waiting_.pop_front();
  }
  ranking_ = true;
  waiting_queries_ -= queries;
  queue_.Set(static_cast<double>(waiting_queries_));
  return batch;
}

void PredictBatcher::Run() {
  for (;;) {
    Jobs batch = TakeBatch();
    if (batch.empty()) return;
    RankBatch(std::move(batch));
  }
}

void PredictBatcher::RankBatch(Jobs batch) {
  std::vector<RankJob*> kinds[2][2];  // [hashed][hidden]
  const absl::Duration now = clock_.Now();
  for (RankJob& job : batch) {
    const bool gone = job.cancelled && job.cancelled();
    if (gone || job.deadline <= now) {
      late_.Increment();
      job.done(gone ? absl::CancelledError("the caller gave up before its turn came")
                    : absl::DeadlineExceededError(
                          "the deadline passed while the request waited for its turn"));
      continue;
    }
    kinds[job.options.hashed ? 1 : 0][HasHidden(job) ? 1 : 0].push_back(&job);
  }
  for (auto& by_hidden : kinds) {
    for (std::vector<RankJob*>& jobs : by_hidden) {
      if (!jobs.empty()) RankKind(absl::MakeSpan(jobs));
    }
  }
}

void PredictBatcher::RankKind(absl::Span<RankJob* const> jobs) {
  std::vector<const RankQuery*> queries;
  RankOptions options{.k = 0, .hashed = jobs.front()->options.hashed};
  absl::Duration deadline = -absl::InfiniteDuration();  // of the most patient caller
  for (const RankJob* job : jobs) {
    options.k = std::max(options.k, job->options.k);
    deadline = std::max(deadline, job->deadline);
    for (const RankQuery& query : job->queries) queries.push_back(&query);
  }
  // What is done once for many callers stands in the trace of one.
  const auto kept = absl::c_find_if(jobs, [](const RankJob* job) { return job->trace.sampled; });
  const ScopedTrace below((kept == jobs.end() ? jobs.front() : *kept)->trace);
  const absl::Duration start = clock_.Now();
  absl::StatusOr<std::vector<Prediction>> ranked = rank_(queries, options, deadline);
  batch_queries_.Observe(static_cast<double>(queries.size()));
  rank_seconds_.Observe(absl::ToDoubleSeconds(clock_.Now() - start));
  if (!ranked.ok()) {
    if (jobs.size() > 1 && absl::IsInvalidArgument(ranked.status())) {
      for (RankJob* const& job : jobs) RankKind(absl::MakeConstSpan(&job, 1));
      return;
    }
    for (const RankJob* job : jobs) job->done(ranked.status());
    return;
  }
  auto next = std::make_move_iterator(ranked->begin());
  for (const RankJob* job : jobs) {
    std::vector<Prediction> mine(next, next + QueriesOf(*job));
    next += QueriesOf(*job);
    for (Prediction& prediction : mine) {
      scored_rows_.Increment(static_cast<double>(prediction.scored_rows));
      const size_t keep = std::min(prediction.labels.size(), static_cast<size_t>(job->options.k));
      prediction.labels.resize(keep);
      prediction.logits.resize(keep);
    }
    job->done(std::move(mine));
  }
}

}  // namespace dslide::cli
