// The operations of a coordinator: those that run, and the last that have ended.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "services/coordinator/operations/operation.h"
#include "services/coordinator/tasks/work_progress.h"

namespace dslide::coordinator {

struct OperationLimits {
  // Each has a thread, and most wait for each other.
  int64_t running = 16;
  // Ended ones that can still be asked for; the oldest are forgotten.
  int64_t ended = 100;
  // Calls that wait for an end at once: each holds a thread of the server.
  int64_t waiting = 64;
};

struct OperationRequest {
  OperationKind kind = OperationKind::kCreateCheckpoint;
  std::string target = {};  // for people
  // Of requests with equal keys one runs at a time; "": any number.
  std::string key = {};
};

// Thread safety: safe from any thread.
class Operations {
 public:
  // Runs on a thread of its own; ends soon after its progress says so.
  using Work = std::function<absl::StatusOr<OperationResult>(WorkProgress&)>;

  // `clock` and `metrics` outlive it.
  Operations(const OperationLimits& limits, const Clock* clock, Metrics* metrics);
  // Stops, and waits until all have ended.
  ~Operations();

  // Begins the work, or returns the one with that kind and key that runs and was not cancelled.
  // Errors: ResourceExhausted TOO_MANY_OPERATIONS; Unavailable SHUTTING_DOWN.
  absl::StatusOr<OperationView> Start(const OperationRequest& request, Work work);
  // Returns once it is done, after `wait`, or at once when too many wait.
  // Errors: NotFound UNKNOWN_OPERATION.
  absl::StatusOr<OperationView> Get(const std::string& id, absl::Duration wait);
  // The newest first.
  std::vector<OperationView> List() const;
  // Asks it to end; no more than that, and nothing when it is done. Errors: NotFound
  // UNKNOWN_OPERATION.
  absl::StatusOr<OperationView> Cancel(const std::string& id);

  // Asks all to end, takes no new ones, and lets nobody wait. Repeating it is fine.
  void Stop();

 private:
  struct Operation {
    OperationView view;  // without elapsed and progress while it runs
    std::string key;
    absl::Duration started;
    WorkProgress progress;
    std::thread thread;
  };

  void Run(const std::shared_ptr<Operation>& operation, const Work& work);
  std::shared_ptr<Operation> FindRunning(const OperationRequest& request) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<Operation>> Find(const std::string& id) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  OperationView ViewOf(const Operation& operation) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Of one kind, or of all.
  int64_t CountRunning(std::optional<OperationKind> kind = std::nullopt) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Forgets the oldest ended ones beyond the limit.
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The threads of those that have ended, to be joined without the lock.
  std::vector<std::thread> TakeEndedThreads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const OperationLimits limits_;  // constant after construction
  const Clock* const clock_;      // self-synchronised
  Metrics* const metrics_;        // self-synchronised
  // By kind and result; constant after construction.
  const std::map<std::pair<OperationKind, std::string>, Counter> ended_counters_;

  mutable absl::Mutex mu_;
  // By number. Shared with the operation's thread and with those that wait for its end.
  std::map<uint64_t, std::shared_ptr<Operation>> operations_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> forgotten_ ABSL_GUARDED_BY(mu_);  // of operations that are gone
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t waiting_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dslide::coordinator
