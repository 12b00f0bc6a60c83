// Queries of concurrent requests, ranked together.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/components/ranking.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/net/metrics/metrics.h"
#include "core/net/trace/trace_context.h"

namespace dslide::cli {

// One query: a point, or a hidden vector when that is not empty.
struct RankQuery {
  std::vector<RowId> features = {};  // strictly ascending
  std::vector<float> values = {};    // [features]
  std::vector<float> hidden = {};
};

struct RankOptions {
  int64_t k = 0;
  bool hashed = false;
};

// The queries of one request, which are answered at once.
struct RankJob {
  std::vector<RankQuery> queries;
  RankOptions options;
  absl::Duration deadline;          // of the caller, by the batcher's clock
  std::function<bool()> cancelled;  // whether the caller has gone; may be null
  TraceContext trace;               // of the caller
  // Called once, on the batcher's thread or in Submit(). An answer for each query, or the error.
  std::function<void(absl::StatusOr<std::vector<Prediction>>)> done;
};

struct BatcherOptions {
  // Queries ranked together; a request with more is ranked alone. >= 1.
  int64_t max_batch = 64;
  // How long a request may wait for others while the batch is not full. Nobody waits who finds
  // nothing being ranked.
  absl::Duration max_wait = absl::ZeroDuration();
  // Queries that may wait; >= 1.
  int64_t max_queue = 1024;
};

// The best labels of each query: all with features, or all with hidden vectors. To be given up at
// `deadline`, by the batcher's clock. On one thread.
using RankQueries = std::function<absl::StatusOr<std::vector<Prediction>>(
    absl::Span<const RankQuery* const> queries, RankOptions options, absl::Duration deadline)>;

// A request is ranked with others of its kind. Whose deadline has passed, or whose caller has gone,
// is not ranked. When several are refused together as InvalidArgument, each is ranked alone, so
// that none fails for another's fault.
//
// Thread safety: safe from any thread.
class PredictBatcher {
 public:
  // `metrics` and `clock` must outlive it.
  PredictBatcher(BatcherOptions options, RankQueries rank, Metrics& metrics,
                 const Clock& clock = SteadyClock());
  // Stops.
  ~PredictBatcher();
  PredictBatcher(const PredictBatcher&) = delete;
  PredictBatcher& operator=(const PredictBatcher&) = delete;

  // Queues the job. Its answer may be ResourceExhausted QUEUE_FULL with a pause, or Unavailable
  // SHUTTING_DOWN.
  void Submit(RankJob job);

  // Of the deadlines.
  const Clock& clock() const { return clock_; }

  // Answers what is queued and takes nothing more. Repeated calls do nothing.
  void Stop();

 private:
  using Jobs = std::vector<RankJob>;

  void Run();
  // The next jobs, in order; none once stopped and empty.
  Jobs TakeBatch();
  bool FullOrStopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RankBatch(Jobs batch);
  // Jobs of one kind: equal `hashed`, all or none with hidden vectors.
  void RankKind(absl::Span<RankJob* const> jobs);

  const BatcherOptions options_;  // constant after construction
  const RankQueries rank_;        // constant after construction
  const Clock& clock_;
  Histogram batch_queries_;
  Histogram queue_seconds_;
  Histogram rank_seconds_;
  Counter full_;
  Counter late_;
  Counter scored_rows_;
  Gauge queue_;
  absl::Mutex mu_;
  struct Waiting {
    RankJob job;
    absl::Duration since;
    bool at_once;  // it found nothing being ranked
  };
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  int64_t waiting_queries_ ABSL_GUARDED_BY(mu_) = 0;
  bool ranking_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace dslide::cli
