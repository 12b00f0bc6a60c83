// Where a trainer's batches come from: leases of the coordinator, turned into batches ahead of use.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/trainer/batch_preparer.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"
#include "core/protocol/job_work.h"

namespace dslide {

// All batches of a chunk were handed out before this.
struct ChunkEnd {
  uint64_t lease = 0;
};
// Nothing follows for now: finish the steps under way, so that their chunks can be reported.
struct DrainSteps {};
// The trainer's own limit of steps is reached.
struct StepLimitReached {};
// Of NextWithin() alone: ask again.
struct NothingYet {};
// An error ends the feed.
using FeedItem = std::variant<PreparedBatch, ChunkEnd, DrainSteps, EvaluationWork, StageWork,
                              NoMoreWork, StepLimitReached, NothingYet, absl::Status>;

struct WorkFeedOptions {
  std::string job;
  ClientId client = {};
  int64_t batch_size = 256;
  uint64_t seed = 1;        // of the order of the points; equal for all trainers of a job
  int64_t max_steps = 0;    // batches handed out at most; 0: no limit
  size_t queued_items = 6;  // prepared ahead; memory is this many batches
  // Leases are renewed this often while their batches are worked on: twice in the shortest
  // --lease-timeout that the coordinator takes.
  absl::Duration renew_interval = absl::Seconds(1);
  // How long the coordinator may be unreachable before the feed gives up.
  absl::Duration patience = absl::Minutes(2);
};

// One background thread asks for leases, renews those held, reports those finished, and reads,
// transforms and slices the batches. The next lease is asked for while batches of the last one are
// still queued. The sequence of items is a function of the leases alone.
//
// Thread safety: Next() from one thread, Finish() from any.
class WorkFeed {
 public:
  using Acquire = std::function<absl::StatusOr<Work>(const WorkRequest& request)>;
  using Rejoin = std::function<absl::Status()>;
  using Warn = std::function<void(const std::string& message)>;

  // Everything passed in must outlive the feed. preparer: null for a job without epochs. The
  // functions run on the feed's thread. `rejoin` registers the job again when `acquire` answers
  // NotFound: a coordinator that was restarted has forgotten it, and the leases with it.
  WorkFeed(WorkFeedOptions options, const Dataset& data, const TrainingSplit& split,
           const BatchPreparer* preparer, Acquire acquire, Warn warn, Rejoin rejoin);
  // Waits for a running `acquire` call.
  ~WorkFeed();
  WorkFeed(const WorkFeed&) = delete;
  WorkFeed& operator=(const WorkFeed&) = delete;

  // Blocks for the next item. After NoMoreWork, StepLimitReached or an error there is none.
  FeedItem Next();
  // The same, or NothingYet after `patience`: while the coordinator is away there may be no item
  // for minutes.
  FeedItem NextWithin(absl::Duration patience);

  // A chunk's steps are all done, or an evaluation or a stage is: the next call to the coordinator
  // says so. Leases that are not held any more are ignored.
  void Finish(const LeaseReport& lease);

 private:
  void Run();
  // False when the feed is over.
  bool HandOut(const ChunkWork& chunk);
  // The next step of a chunk. Points with uncommonly many features: lowers `count`, so that the
  // step can be sent.
  absl::StatusOr<PreparedBatch> PrepareStep(const ChunkWork& chunk, int64_t first,
                                            int64_t& count) const;
  bool Push(FeedItem item);
  absl::StatusOr<Work> Ask(bool want_work);
  // Joins the job anew, once all steps under way are finished. False when the feed is over.
  bool JoinAgain(bool drained);
  // Sleeps for `pause`, or until there is something to report.
  void Pause(absl::Duration pause, bool until_report);
  bool WaitUntilReported(uint64_t lease);
  std::vector<int64_t> PointsOf(const ChunkWork& chunk, int64_t first, int64_t count) const;

  const WorkFeedOptions options_;
  const Dataset& data_;
  const TrainingSplit& split_;
  const BatchPreparer* const preparer_;
  const Acquire acquire_;
  const Warn warn_;
  const Rejoin rejoin_;
  // Of the feed's thread.
  int64_t steps_ = 0;
  int rejoins_ = 0;

  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<FeedItem> queue_ ABSL_GUARDED_BY(mu_);
  int64_t pushed_ ABSL_GUARDED_BY(mu_) = 0;  // items
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;   // of Next(): all items but the last are dealt with
  std::vector<uint64_t> held_ ABSL_GUARDED_BY(mu_);
  std::vector<LeaseReport> finished_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace dslide
