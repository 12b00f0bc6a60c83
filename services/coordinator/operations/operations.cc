#include "services/coordinator/operations/operations.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/random_id.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/net/trace/trace_context.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

constexpr char kOk[] = "ok";
constexpr char kFailed[] = "failed";
constexpr char kCancelled[] = "cancelled";

const char* ResultName(const absl::Status& status) {
  return status.ok() ? kOk : absl::IsCancelled(status) ? kCancelled : kFailed;
}

// 16 digits that nobody guesses: who knows an operation may look at it and cancel it.
std::string NewId() {
  const std::array<uint8_t, 16> id = RandomId();
  return absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), 8});
}

std::map<std::pair<OperationKind, std::string>, Counter> AddEndedCounters(Metrics& metrics) {
  std::map<std::pair<OperationKind, std::string>, Counter> counters;
  for (const OperationKind kind : kOperationKinds) {
    for (const char* const result : {kOk, kFailed, kCancelled}) {
      counters[{kind, result}] =
          metrics.AddCounter("dslide_coordinator_operations_ended_total", "Operations that ended.",
                             {{"kind", OperationKindName(kind)}, {"result", result}});
    }
  }
  return counters;
}

absl::Status ShuttingDown() {
  return StatusWithReason(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                          "the coordinator is shutting down");
}

}  // namespace

const char* OperationKindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kCreateCheckpoint:
      return "create-checkpoint";
    case OperationKind::kRestoreCheckpoint:
      return "restore-checkpoint";
    case OperationKind::kCreateClusterCheckpoint:
      return "create-cluster-checkpoint";
    case OperationKind::kVerifyClusterCheckpoint:
      return "verify-cluster-checkpoint";
    case OperationKind::kRestoreClusterCheckpoint:
      return "restore-cluster-checkpoint";
    case OperationKind::kAdoptClusterCheckpoint:
      return "adopt-cluster-checkpoint";
  }
  return "unknown";
}

Operations::Operations(const OperationLimits& limits, const Clock* clock, Metrics* metrics)
    : limits_(limits),
      clock_(clock),
      metrics_(metrics),
      ended_counters_(AddEndedCounters(*metrics)) {
  for (const OperationKind kind : kOperationKinds) {
    metrics_->AddGaugeCallback(this, "dslide_coordinator_operations_running",
                               "Operations that run.", {{"kind", OperationKindName(kind)}},
                               [this, kind] {
                                 const absl::MutexLock lock(&mu_);
                                 return static_cast<double>(CountRunning(kind));
                               });
  }
}

Operations::~Operations() {
  Stop();
  std::vector<std::thread> threads;
  {
    const absl::MutexLock lock(&mu_);
    threads = std::move(forgotten_);
    for (auto& [number, operation] : operations_) threads.push_back(std::move(operation->thread));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  metrics_->RemoveCallbacks(this);
}

int64_t Operations::CountRunning(std::optional<OperationKind> kind) const {
  return std::count_if(operations_.begin(), operations_.end(), [&](const auto& entry) {
    const OperationView& view = entry.second->view;
    return !view.status.done && (!kind.has_value() || view.kind == *kind);
  });
}

std::shared_ptr<Operations::Operation> Operations::FindRunning(
    const OperationRequest& request) const {
  if (request.key.empty()) return nullptr;
  for (const auto& [number, operation] : operations_) {
    const OperationView& view = operation->view;
    if (view.kind == request.kind && operation->key == request.key && !view.status.done &&
        !view.status.cancel_requested) {
      return operation;
    }
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Operations::Operation>> Operations::Find(
    const std::string& id) const {
  for (const auto& [number, operation] : operations_) {
    if (operation->view.status.operation_id == id) return operation;
  }
  return StatusWithReason(
      absl::StatusCode::kNotFound, reason::kUnknownOperation,
      absl::StrCat("there is no operation \"", EscapeForLog(id, 80),
                   "\" here: a coordinator that was restarted has none of before, and keeps the ",
                   limits_.ended,
                   " that ended last; dslide checkpoint list and dslide status show "
                   "what came of it"));
}

OperationView Operations::ViewOf(const Operation& operation) const {
  OperationView view = operation.view;
  if (view.status.done) return view;
  WorkProgress::View progress = operation.progress.view();
  view.status.elapsed = clock_->Now() - operation.started;
  view.status.stage = std::move(progress.stage);
  view.status.shards_done = progress.shards_done;
  view.status.shards = progress.shards;
  return view;
}

std::vector<std::thread> Operations::TakeEndedThreads() {
  std::vector<std::thread> threads = std::move(forgotten_);
  forgotten_.clear();
  for (auto& [number, operation] : operations_) {
    if (operation->view.status.done && operation->thread.joinable()) {
      threads.push_back(std::move(operation->thread));
    }
  }
  return threads;
}

absl::StatusOr<OperationView> Operations::Start(const OperationRequest& request, Work work) {
  std::vector<std::thread> ended;
  absl::StatusOr<OperationView> view;
  {
    const absl::MutexLock lock(&mu_);
    if (stopped_) return ShuttingDown();
    if (const auto running = FindRunning(request); running != nullptr) return ViewOf(*running);
    if (const int64_t running = CountRunning(); running >= limits_.running) {
      return OverloadStatus(
          reason::kTooManyOperations,
          absl::StrCat(running,
                       " operations run, which is the most: wait for one to end, or "
                       "cancel one (dslide status shows them)"),
          absl::Seconds(1));
    }
    ended = TakeEndedThreads();
    const auto operation = std::make_shared<Operation>();
    operation->view.number = ++last_number_;
    operation->view.kind = request.kind;
    operation->view.status = {
        .operation_id = NewId(), .kind = OperationKindName(request.kind), .target = request.target};
    operation->key = request.key;
    operation->started = clock_->Now();
    operations_[operation->view.number] = operation;
    operation->thread =
        std::thread([this, operation, work = std::move(work), trace = CurrentTrace()] {
          const ScopedTrace below(trace);
          Run(operation, work);
        });
    view = ViewOf(*operation);
  }
  for (std::thread& thread : ended) thread.join();
  return view;
}

void Operations::Run(const std::shared_ptr<Operation>& operation, const Work& work) {
  absl::StatusOr<OperationResult> result = work(operation->progress);
  const absl::MutexLock lock(&mu_);
  OperationView& view = operation->view;
  view.status.elapsed = clock_->Now() - operation->started;
  view.error = result.status();
  if (result.ok()) view.result = *std::move(result);
  view.status.done = true;
  ended_counters_.at({view.kind, ResultName(view.error)}).Increment();
  LogInfo("operation ended", {{"id", view.status.operation_id},
                              {"operation", view.status.kind},
                              {"target", view.status.target},
                              {"result", ResultName(view.error)},
                              {"error", view.error.message()},
                              {"duration", absl::FormatDuration(view.status.elapsed)}});
  Forget();
}

void Operations::Forget() {
  int64_t ended = static_cast<int64_t>(operations_.size()) - CountRunning();
  for (auto entry = operations_.begin(); entry != operations_.end() && ended > limits_.ended;) {
    if (!entry->second->view.status.done) {
      ++entry;
      continue;
    }
    std::thread& thread = entry->second->thread;
    if (thread.joinable()) forgotten_.push_back(std::move(thread));
    entry = operations_.erase(entry);
    --ended;
  }
}

absl::StatusOr<OperationView> Operations::Get(const std::string& id, absl::Duration wait) {
  const absl::MutexLock lock(&mu_);
  const auto operation = Find(id);
  if (!operation.ok()) return operation.status();
  if (waiting_ < limits_.waiting) {
    ++waiting_;
    const auto over = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return stopped_ || (*operation)->view.status.done;
    };
    mu_.AwaitWithTimeout(absl::Condition(&over), wait);
    --waiting_;
  }
  return ViewOf(**operation);
}

std::vector<OperationView> Operations::List() const {
  const absl::MutexLock lock(&mu_);
  std::vector<OperationView> views;
  for (auto entry = operations_.rbegin(); entry != operations_.rend(); ++entry) {
    views.push_back(ViewOf(*entry->second));
  }
  return views;
}

absl::StatusOr<OperationView> Operations::Cancel(const std::string& id) {
  const absl::MutexLock lock(&mu_);
  const auto operation = Find(id);
  if (!operation.ok()) return operation.status();
  Operation& found = **operation;
  if (!found.view.status.done && !found.view.status.cancel_requested) {
    found.view.status.cancel_requested = true;
    found.progress.Cancel(absl::CancelledError("it was cancelled and has changed nothing"));
    LogInfo("operation cancelled",
            {{"operation", found.view.status.kind}, {"target", found.view.status.target}});
  }
  return ViewOf(found);
}

void Operations::Stop() {
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
  for (auto& [number, operation] : operations_) {
    if (!operation->view.status.done) operation->progress.Cancel(ShuttingDown());
  }
}

}  // namespace dslide::coordinator
