// Applies commands to the state machine, one at a time, on one thread, or while that waits for work
// on the thread of who brings some.
//
// Requests come from any thread. They are applied in the order of their arrival, and answered in
// that order.
//
// With a command log, a command that may change the state is appended before it is applied. Where
// answers wait for the disk, an answer is given when everything that it can show is durable.

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
#include "services/shard/sequencer/sequencer_request.h"
#include "services/shard/sequencer/step_gate.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

enum class QueuePlace {
  kBack,
  // In front of all kBack, behind earlier kFront. For work during which trainers stand still.
  kFront,
};

// Thread safety: safe from any thread.
class Sequencer {
 public:
  using Request = SequencerRequest;

  // `core`, `metrics` and `clock` outlive it.
  Sequencer(ShardCore& core, SequencerOptions options, ShardMetrics& metrics, const Clock& clock,
            SequencerLog log = {});
  ~Sequencer();  // stops first
  Sequencer(const Sequencer&) = delete;
  Sequencer& operator=(const Sequencer&) = delete;

  // Queues a request. On an error `done` is not called.
  // Errors: ResourceExhausted QUEUE_FULL; Unavailable SHUTTING_DOWN after Stop().
  absl::Status Submit(Request request);

  // Runs `task` on the sequencer's thread, the only one that may touch the core. For work on the
  // state itself: checkpoints, ownership. Commands wait until it returns.
  // Errors: Unavailable SHUTTING_DOWN; the task is then not run.
  absl::Status SubmitTask(std::function<void(ShardCore&)> task,
                          QueuePlace place = QueuePlace::kBack);
  // As SubmitTask, and returns the result. Not on the sequencer's threads; without any, runs here.
  absl::Status RunTask(const std::function<absl::Status(ShardCore&)>& task);

  // For a shard that another process owns now. Answers all queued and later commands with `why`.
  // Cannot be undone.
  void Fence(const absl::Status& why);

  // Answers mutations and greetings of clients with `why` until OpenToClients()
  // (client_admission.h).
  void CloseToClients(const absl::Status& why);
  void OpenToClients();

  // Applies a command within a task, and logs it like any other.
  Answer ApplyInTask(ShardCore& core, Command command, const wire::LoggedCommand& logged);

  // --- For cluster checkpoints (step_gate.h). To be called within a task. After the task, held
  // requests that the gate admits are applied.
  StepGate& gate() { return gate_; }
  // Closes the gate. It opens by itself after `limit`.
  void Freeze(uint64_t checkpoint_id, absl::Duration limit);
  // Opens the gate and never closes it again: the shard is about to stop. A checkpoint in progress
  // finds that this shard is not frozen. From any thread.
  void DisableGate();
  // Within a task: how long this freeze has made requests wait so far, at the gate or for the task.
  // Time in which the shard works on admitted requests does not count.
  absl::Duration Stall() const;
  // Number of requests held at the gate.
  int64_t waiting() const { return waiting_.load(); }

  // Called on the log's thread. After OnLogFailed() nothing more is applied, and no answer is given
  // that depends on a record which is not durable.
  void OnDurable(uint64_t lsn);
  void OnLogFailed(const absl::Status& why);

  // Refuses new requests, answers queued ones, and ends the threads. Without threads it only
  // refuses.
  void Stop();

  // Without threads: applies the next request and gives answers. False when the queue is empty.
  bool RunOnce();
  // When RunOnce() must be called even if nothing is queued: at the end of a freeze.
  absl::Duration WakeAt() const { return gate_.frozen() ? gate_opens_ : absl::InfiniteDuration(); }

  // How long the last applied command waited.
  absl::Duration last_wait() const { return absl::Nanoseconds(last_wait_ns_.load()); }
  // Mutations applied so far, and the tables' memory as of the last publication.
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
  // Takes what apply_thread_ owns until Return(), if that waits and nothing is queued.
  bool Borrow();
  void Return();
  void NoteWork() const {
    if (options_.on_work) options_.on_work();
  }
  // Errors: ResourceExhausted QUEUE_FULL.
  absl::Status CheckRoom(const Item& item, bool reserved) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ApplyLoop();
  bool Next(Item& item);  // false: stopped. An empty item: the freeze has timed out
  bool Pop(Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies or holds it, and ends a freeze that has timed out; the item may be empty.
  void Handle(Item item);
  bool Hold(Item& item);  // takes the item if the gate makes it wait
  void ReleaseHeld();     // applies the held requests that the gate admits now
  void Apply(Item item);
  Answer ApplyAdmitted(Request& request);
  absl::Status CheckAdmission(const Request& request);
  absl::Status AppendToLog(const Command& command, const wire::LoggedCommand& logged);
  bool MayReply() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(reply_mu_);
  void PublishSizes();
  void Deliver(std::function<void(Answer)> callback, Answer answer);
  void ReplyLoop();
  Done TakeReply() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reply_mu_);  // the first; MayReply() was true

  ShardCore& core_;  // as gate_
  const SequencerOptions options_;
  ShardMetrics& metrics_;
  const Clock& clock_;
  const SequencerLog log_;
  std::atomic<int64_t> last_wait_ns_ = 0;
  std::atomic<int64_t> mutations_ = 0;
  std::atomic<int64_t> table_bytes_ = 0;
  std::atomic<int64_t> waiting_ = 0;

  // Of apply_thread_, or of who has borrowed it.
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
  bool idle_ ABSL_GUARDED_BY(mu_) = false;      // apply_thread_ waits for work
  bool borrowed_ ABSL_GUARDED_BY(mu_) = false;  // and waits on while this is so
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
