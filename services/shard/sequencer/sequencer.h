// The one thread that owns the state machine: requests go in from any thread, are applied one after
// the other in the order of their arrival, and their answers come out in that order.
//
// With a command log, what may change the state is appended to it before it is applied; where
// answers wait for the disk, none is given before everything that it could show is durable.

#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/protocol/commands.h"
#include "core/wire/log/logged_command.h"
#include "services/shard/metrics/shard_metrics.h"
#include "services/shard/sequencer/hold_meter.h"
#include "services/shard/sequencer/queue_load.h"
#include "services/shard/sequencer/sequencer_options.h"
#include "services/shard/sequencer/step_gate.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

enum class QueuePlace {
  kBack,
  // In front of what waits, but behind others of this kind: while trainers stand still.
  kFront,
};

// Thread safety: safe from any thread.
class Sequencer {
 public:
  struct Request {
    Command command;
    // What the log keeps of it; needed when there is one and the command may change the state.
    wire::LoggedCommand logged = {};
    // Memory of the command, for the queue's budget.
    int64_t bytes = 0;
    bool control = false;  // small, and needed when the shard is overloaded: uses reserved places
    // How long its caller waits for the answer. Where half of it would go by in the queue, it is
    // refused at once: served at the last moment, it would cost as much and be of no use.
    absl::Duration patience = absl::InfiniteDuration();
    // Asked right before the command is applied; an error is the answer, and nothing is applied.
    // For callers that have given up. May be null.
    std::function<absl::Status()> admit = nullptr;
    // Called once, on a thread of the sequencer, in the order of the commands. Must not block.
    std::function<void(Answer)> done;
  };

  // `core`, `metrics` and `clock` outlive it.
  Sequencer(ShardCore& core, SequencerOptions options, ShardMetrics& metrics, const Clock& clock,
            SequencerLog log = {});
  ~Sequencer();  // stops first
  Sequencer(const Sequencer&) = delete;
  Sequencer& operator=(const Sequencer&) = delete;

  // Queues a request. On an error `done` is not called.
  // Errors: ResourceExhausted QUEUE_FULL; Unavailable SHUTTING_DOWN after Stop().
  absl::Status Submit(Request request);

  // Runs `task` in its turn on the sequencer's thread, which alone may touch the core. For work
  // that needs the state itself: checkpoints, ownership. Commands wait meanwhile.
  // Errors: Unavailable SHUTTING_DOWN; the task is then not run.
  absl::Status SubmitTask(std::function<void(ShardCore&)> task,
                          QueuePlace place = QueuePlace::kBack);
  // As SubmitTask, and waits for its result. Not from the sequencer's threads.
  absl::Status RunTask(const std::function<absl::Status(ShardCore&)>& task);

  // Another process owns the shard now: every command that is not applied yet, and every later one,
  // is answered with `why`. For good.
  void Fence(const absl::Status& why);

  // Until OpenToClients(), mutations of clients and their greetings are answered with `why`
  // (client_admission.h).
  void CloseToClients(const absl::Status& why);
  void OpenToClients();

  // Applies a command within a task, logged like any other.
  Answer ApplyInTask(ShardCore& core, Command command, const wire::LoggedCommand& logged);

  // --- For cluster checkpoints (step_gate.h); within a task. What waits goes on after a task as
  // far as the gate lets it.
  StepGate& gate() { return gate_; }
  // Freezes; the gate opens by itself after `limit`, if nobody has come back for it.
  void Freeze(uint64_t checkpoint_id, absl::Duration limit);
  // What waits goes on, and nothing is held any more, for good: the shard is about to stop. From
  // any thread. A checkpoint that counted on it finds that nothing is frozen here.
  void DisableGate();
  // Within a task: for how long this freeze has made requests wait by now, at the gate or for the
  // task itself. While a shard still works on what the gate lets through, nobody has to wait.
  absl::Duration Stall() const;
  // Requests that wait at the gate.
  int64_t waiting() const { return waiting_.load(); }

  // From the log's thread. After the second, nothing that was not durable by now is confirmed any
  // more, and nothing more is applied.
  void OnDurable(uint64_t lsn);
  void OnLogFailed(const absl::Status& why);

  // Refuses new requests, answers those that are queued, and ends the threads; without threads it
  // only refuses.
  void Stop();

  // Without threads: applies the next in the queue, and gives answers. False when it was empty.
  bool RunOnce();
  // When RunOnce() has to be called though nothing is queued: the end of a freeze.
  absl::Duration WakeAt() const { return gate_.frozen() ? gate_opens_ : absl::InfiniteDuration(); }

  // Time that the command applied last had waited.
  absl::Duration last_wait() const { return absl::Nanoseconds(last_wait_ns_.load()); }
  // Mutations applied, and memory of the tables a moment ago.
  int64_t mutations() const { return mutations_.load(); }
  int64_t table_bytes() const { return table_bytes_.load(); }

 private:
  struct Item {
    Request request;
    std::function<void(ShardCore&)> task;  // instead of a request
    absl::Duration arrival;
    absl::Duration expected;  // of the command's time
  };
  struct Done {
    std::function<void(Answer)> callback;
    Answer answer;
    uint64_t lsn = 0;  // that must be durable first
  };

  absl::Status Push(Item item, bool reserved, QueuePlace place = QueuePlace::kBack);
  // Errors: ResourceExhausted QUEUE_FULL.
  absl::Status CheckRoom(const Item& item, bool reserved) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ApplyLoop();
  bool Next(Item& item);  // false: the end; an item with nothing in it: the gate's time is over
  bool Pop(Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Handle(Item item);  // also ends a freeze whose time is over; the item may be empty
  bool Hold(Item& item);   // takes it where the gate makes it wait; else false
  void ApplyOrHold(Item item);
  void ReleaseHeld();  // applies what waits, as far as it need not wait any more
  void Apply(Item item);
  Answer ApplyAdmitted(Request& request);
  absl::Status CheckAdmission(const Request& request);
  absl::Status AppendToLog(const Command& command, const wire::LoggedCommand& logged);
  bool MayReply() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(reply_mu_);
  void PublishSizes();
  void Deliver(std::function<void(Answer)> callback, Answer answer);
  void ReplyLoop();
  Done TakeReply() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reply_mu_);  // the first, which may be given

  ShardCore& core_;  // touched by apply_thread_ only
  const SequencerOptions options_;
  ShardMetrics& metrics_;
  const Clock& clock_;
  const SequencerLog log_;
  std::atomic<int64_t> last_wait_ns_ = 0;
  std::atomic<int64_t> mutations_ = 0;
  std::atomic<int64_t> table_bytes_ = 0;
  std::atomic<int64_t> waiting_ = 0;

  // Of apply_thread_.
  StepGate gate_;
  bool holds_ = true;
  HoldMeter hold_meter_;
  absl::Duration task_start_;
  absl::Duration gate_opens_;
  std::map<ClientId, std::deque<Item>> held_;

  mutable absl::Mutex mu_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mu_);
  int64_t urgent_ ABSL_GUARDED_BY(mu_) = 0;  // the first so many came to the front
  QueueLoad load_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status fenced_ ABSL_GUARDED_BY(mu_);
  absl::Status closed_ ABSL_GUARDED_BY(mu_);

  absl::Mutex reply_mu_;
  std::deque<Done> replies_ ABSL_GUARDED_BY(reply_mu_);
  bool replying_ ABSL_GUARDED_BY(reply_mu_) = false;  // the reply thread is inside a callback
  bool applied_all_ ABSL_GUARDED_BY(reply_mu_) = false;
  uint64_t durable_ ABSL_GUARDED_BY(reply_mu_) = 0;
  absl::Status log_failure_ ABSL_GUARDED_BY(reply_mu_);

  std::thread apply_thread_;
  std::thread reply_thread_;
};

}  // namespace dslide::shard
