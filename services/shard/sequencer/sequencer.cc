#include "services/shard/sequencer/sequencer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"

namespace dslide::shard {
namespace {

// Values that cost a pass over the tables are published this often.
constexpr int64_t kSizesEveryCommands = 256;
constexpr absl::Duration kShortestPause = absl::Milliseconds(5);

absl::Status ShuttingDown() {
  return StatusWithReason(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                          "the shard is shutting down: send it again to its successor");
}

Answer Refused(absl::Status status, uint64_t generation) {
  auto reply = std::make_shared<Reply>();
  reply->status = std::move(status);
  return {.reply = std::move(reply), .generation = generation};
}

// Of a client that knows the shard by its generation.
bool IsOfClient(const Command& command) {
  return std::holds_alternative<StepCommand>(command) ||
         std::holds_alternative<ScatterCommand>(command) ||
         std::holds_alternative<RefusedCommand>(command) ||
         std::holds_alternative<HelloCommand>(command);
}

}  // namespace

Sequencer::Sequencer(ShardCore& core, SequencerOptions options, ShardMetrics& metrics,
                     const Clock& clock, SequencerLog log)
    : core_(core),
      options_(std::move(options)),
      metrics_(metrics),
      clock_(clock),
      log_(std::move(log)),
      durable_(log_.log == nullptr ? 0 : log_.log->durable()) {
  if (!options_.threads) return;
  apply_thread_ = std::thread([this] { ApplyLoop(); });
  reply_thread_ = std::thread([this] { ReplyLoop(); });
}

Sequencer::~Sequencer() { Stop(); }

absl::Status Sequencer::Push(Item item, bool reserved, QueuePlace place) {
  item.arrival = clock_.Now();
  {
    const absl::MutexLock lock(&mu_);
    if (stopping_) return ShuttingDown();
    if (!item.task) item.expected = load_.Expect(CommandKind(item.request.command));
    RETURN_IF_ERROR(CheckRoom(item, reserved));
    load_.Enter(item.request.bytes, item.expected);
    const bool front = place == QueuePlace::kFront;
    queue_.insert(front ? queue_.begin() + urgent_++ : queue_.end(), std::move(item));
  }
  NoteWork();
  return absl::OkStatus();
}

absl::Status Sequencer::CheckRoom(const Item& item, bool reserved) const {
  const int64_t extra = reserved ? options_.control_commands : 0;
  const auto waiting = static_cast<int64_t>(queue_.size());
  const bool full =
      waiting >= options_.queue_commands + extra ||
      // A request of any size may enter an empty queue.
      (!reserved && waiting > 0 && load_.bytes() + item.request.bytes > options_.queue_bytes);
  // Those of a kind that is new are not expected to take any time; what came first tells, then.
  const absl::Duration waited =
      waiting > urgent_ ? item.arrival - queue_[urgent_].arrival : absl::ZeroDuration();
  const absl::Duration wait = std::max(waited, load_.work());
  const bool late = !reserved && wait > item.request.patience / 2;
  if (!full && !late) return absl::OkStatus();
  return OverloadStatus(
      reason::kQueueFull,
      absl::StrCat(waiting, " commands of ", load_.bytes(), " bytes wait already, the first for ",
                   absl::FormatDuration(waited), "; the last would wait for about ",
                   absl::FormatDuration(wait), ": send it again later"),
      std::max(kShortestPause, last_wait() / 2));
}

absl::Status Sequencer::Submit(Request request) {
  const bool reserved = request.control;
  const bool here = request.run_here && Borrow();
  Item item;
  item.request = std::move(request);
  if (!here) return Push(std::move(item), reserved);
  item.arrival = clock_.Now();
  Handle(std::move(item));
  Return();
  return absl::OkStatus();
}

bool Sequencer::Borrow() {
  const absl::MutexLock lock(&mu_);
  if (stopping_ || borrowed_ || !idle_ || !queue_.empty()) return false;
  borrowed_ = true;
  return true;
}

void Sequencer::Return() {
  const absl::MutexLock lock(&mu_);
  borrowed_ = false;
}

absl::Status Sequencer::SubmitTask(std::function<void(ShardCore&)> task, QueuePlace place) {
  Item item;
  item.task = std::move(task);
  return Push(std::move(item), /*reserved=*/true, place);
}

absl::Status Sequencer::RunTask(const std::function<absl::Status(ShardCore&)>& task) {
  absl::Notification finished;
  absl::Status result;
  absl::Status queued = SubmitTask([&](ShardCore& core) {
    result = task(core);
    finished.Notify();
  });
  if (!queued.ok()) return queued;
  while (!options_.threads && !finished.HasBeenNotified()) RunOnce();
  finished.WaitForNotification();
  return result;
}

bool Sequencer::HasWork() const { return !borrowed_ && (stopping_ || !queue_.empty()); }

bool Sequencer::Next(Item& item) {
  const absl::MutexLock lock(&mu_);
  const auto work = absl::Condition(this, &Sequencer::HasWork);
  idle_ = true;
  if (gate_.frozen()) {
    mu_.AwaitWithTimeout(work, gate_opens_ - clock_.Now());
    mu_.Await(absl::Condition(
        +[](bool* borrowed) { return !*borrowed; }, &borrowed_));
  } else {
    mu_.Await(work);
  }
  idle_ = false;
  if (!HasWork()) return true;
  return Pop(item);  // false: stopping, and everything is applied
}

bool Sequencer::Pop(Item& item) {
  if (queue_.empty()) return false;
  item = std::move(queue_.front());
  queue_.pop_front();
  urgent_ = std::max<int64_t>(0, urgent_ - 1);
  load_.Leave(item.request.bytes, item.expected);
  metrics_.SetQueue(static_cast<int64_t>(queue_.size()), load_.bytes());
  return true;
}

void Sequencer::ApplyLoop() {
  for (Item item; Next(item); item = Item()) Handle(std::move(item));
  gate_.Open();
  ReleaseHeld();
  const absl::MutexLock lock(&reply_mu_);
  applied_all_ = true;
}

void Sequencer::Handle(Item item) {
  if (gate_.frozen() && clock_.Now() >= gate_opens_) {
    LogWarning("no cut was made in time: steps go on", {{"checkpoint_id", gate_.checkpoint_id()}});
    gate_.Open();
    ReleaseHeld();
  }
  if (item.task) {
    Apply(std::move(item));
    ReleaseHeld();
  } else if (item.request.done && Hold(item)) {
    waiting_.fetch_add(1, std::memory_order_relaxed);
  } else if (item.request.done) {
    Apply(std::move(item));
  }
  hold_meter_.Note(!held_.empty(), clock_.Now());
}

bool Sequencer::Hold(Item& item) {
  if (!gate_.MustWait(item.request.command, core_.contexts())) return false;
  gate_.NoteWaiting(item.request.command);
  held_[*SequencedClient(item.request.command)].push_back(std::move(item));
  return true;
}

void Sequencer::ReleaseHeld() {
  if (held_.empty()) return;
  std::map<ClientId, std::deque<Item>> held;
  held.swap(held_);
  for (auto& [client, items] : held) {
    gate_.NoteNoneWaiting(client);
    for (Item& item : items) {
      // Who looks at the count meanwhile finds those that stay in it.
      if (Hold(item)) continue;
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      Apply(std::move(item));
    }
  }
}

void Sequencer::Freeze(uint64_t checkpoint_id, absl::Duration limit) {
  if (!holds_) return;
  hold_meter_.Reset();
  gate_.Freeze(checkpoint_id);
  gate_opens_ = clock_.Now() + limit;
}

absl::Duration Sequencer::Stall() const {
  absl::Duration arrival = absl::InfiniteDuration();
  {
    const absl::MutexLock lock(&mu_);
    for (const Item& item : queue_) {
      if (!item.task) arrival = std::min(arrival, item.arrival);
    }
  }
  return hold_meter_.Total(clock_.Now(), std::max(arrival, task_start_));
}

void Sequencer::DisableGate() {
  // Refused only after Stop(), which lets everything go by itself.
  SubmitTask([this](ShardCore&) {
    holds_ = false;
    gate_.Open();
  }).IgnoreError();
}

void Sequencer::Apply(Item item) {
  const absl::Duration start = clock_.Now();
  const absl::Duration waited = start - item.arrival;
  last_wait_ns_.store(absl::ToInt64Nanoseconds(waited), std::memory_order_relaxed);
  metrics_.RecordQueue(waited);
  if (item.task) {
    // A task may show the state to others: in a checkpoint, for instance.
    if (log_.answers_wait) log_.log->Sync().IgnoreError();
    task_start_ = start;
    item.task(core_);
    PublishSizes();
    return;
  }
  const size_t kind = CommandKind(item.request.command);
  const bool changes_models = std::holds_alternative<CreateModelCommand>(item.request.command) ||
                              std::holds_alternative<DropModelCommand>(item.request.command);
  const bool logged = log_.log != nullptr && item.request.logged.kind != wire::LoggedKind::kNone;
  const std::optional<StepMark> mark = MarkOf(item.request.command);
  Answer answer = ApplyAdmitted(item.request);
  const absl::Duration took = clock_.Now() - start;
  metrics_.RecordApply(kind, took);
  if (answer.reply->status.ok()) {
    const absl::MutexLock lock(&mu_);
    load_.Learn(kind, took);
  }
  metrics_.RecordAnswer(answer, mark);
  if (changes_models || core_.commands() % kSizesEveryCommands == 0) {
    PublishSizes();
  } else {
    metrics_.Publish(core_);
  }
  mutations_.store(core_.mutations(), std::memory_order_relaxed);
  Deliver(std::move(item.request.done), std::move(answer));
  if (logged && log_.after_logged) log_.after_logged(core_);
}

void Sequencer::PublishSizes() {
  metrics_.PublishSizes(core_);
  table_bytes_.store(core_.memory_bytes(), std::memory_order_relaxed);
}

void Sequencer::Fence(const absl::Status& why) {
  const absl::MutexLock lock(&mu_);
  fenced_ = why;
}

void Sequencer::CloseToClients(const absl::Status& why) {
  const absl::MutexLock lock(&mu_);
  closed_ = why;
}

void Sequencer::OpenToClients() {
  const absl::MutexLock lock(&mu_);
  closed_ = absl::OkStatus();
}

absl::Status Sequencer::CheckAdmission(const Request& request) {
  {
    const absl::MutexLock lock(&mu_);
    if (!fenced_.ok()) return fenced_;
    if (!closed_.ok() && IsOfClient(request.command)) return closed_;
  }
  return request.admit ? request.admit() : absl::OkStatus();
}

absl::Status Sequencer::AppendToLog(const Command& command, const wire::LoggedCommand& logged) {
  if (log_.log == nullptr || !MayChangeState(command)) return absl::OkStatus();
  if (logged.kind == wire::LoggedKind::kNone) {
    return absl::InternalError("a command that may change the state came without its log record");
  }
  const absl::Duration start = clock_.Now();
  absl::Status appended =
      log_.log->Append(static_cast<uint8_t>(logged.kind), logged.payload).status();
  metrics_.RecordLogAppend(clock_.Now() - start);
  return appended;
}

Answer Sequencer::ApplyInTask(ShardCore& core, Command command, const wire::LoggedCommand& logged) {
  if (absl::Status appended = AppendToLog(command, logged); !appended.ok()) {
    return Refused(std::move(appended), core.generation());
  }
  return core.Apply(std::move(command));
}

Answer Sequencer::ApplyAdmitted(Request& request) {
  absl::Status admitted = CheckAdmission(request);
  // In front of the application: what cannot be kept is not applied.
  if (admitted.ok()) admitted = AppendToLog(request.command, request.logged);
  request.logged = {};
  if (!admitted.ok()) return Refused(std::move(admitted), core_.generation());
  DSLIDE_FAILPOINT("shard.apply.begin");
  Answer answer = core_.Apply(std::move(request.command));
  DSLIDE_FAILPOINT("shard.apply.done");
  return answer;
}

void Sequencer::Deliver(std::function<void(Answer)> callback, Answer answer) {
  const uint64_t lsn = log_.answers_wait ? log_.log->appended() : 0;
  bool idle = false;
  {
    const absl::MutexLock lock(&mu_);
    idle = queue_.empty();
  }
  {
    const absl::MutexLock lock(&reply_mu_);
    // With nothing else to do, this thread answers by itself and saves a switch of threads. Not
    // while the reply thread has earlier answers: order is a promise.
    if (!idle || !replies_.empty() || replying_ || lsn > durable_) {
      DSLIDE_FAILPOINT("shard.ack.waiting");
      replies_.push_back({std::move(callback), std::move(answer), lsn});
      return;
    }
  }
  callback(std::move(answer));
}

void Sequencer::OnDurable(uint64_t lsn) {
  {
    const absl::MutexLock lock(&reply_mu_);
    durable_ = lsn;
  }
  NoteWork();
}

void Sequencer::OnLogFailed(const absl::Status& why) {
  // What is in memory may be lost: from here on nobody may see it.
  Fence(why);
  {
    const absl::MutexLock lock(&reply_mu_);
    log_failure_ = why;
  }
  NoteWork();
}

bool Sequencer::MayReply() const {
  if (replies_.empty()) return applied_all_;
  return replies_.front().lsn <= durable_ || !log_failure_.ok();
}

void Sequencer::ReplyLoop() {
  for (;;) {
    Done done;
    {
      const absl::MutexLock lock(&reply_mu_);
      replying_ = false;
      reply_mu_.Await(absl::Condition(this, &Sequencer::MayReply));
      if (replies_.empty()) return;
      done = TakeReply();
      replying_ = true;
    }
    DSLIDE_FAILPOINT("shard.ack.sending");
    done.callback(std::move(done.answer));
    DSLIDE_FAILPOINT("shard.ack.sent");
  }
}

Sequencer::Done Sequencer::TakeReply() {
  Done done = std::move(replies_.front());
  replies_.pop_front();
  if (done.lsn > durable_) done.answer = Refused(log_failure_, done.answer.generation);
  return done;
}

bool Sequencer::RunOnce() {
  Item item;
  bool found = false;
  {
    const absl::MutexLock lock(&mu_);
    found = Pop(item);
  }
  Handle(std::move(item));
  for (;;) {
    Done done;
    {
      const absl::MutexLock lock(&reply_mu_);
      if (replies_.empty() || !MayReply()) return found;
      done = TakeReply();
    }
    done.callback(std::move(done.answer));
  }
}

void Sequencer::Stop() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (apply_thread_.joinable()) apply_thread_.join();
  if (reply_thread_.joinable()) reply_thread_.join();
}

}  // namespace dslide::shard
