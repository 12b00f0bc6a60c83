#include "client/cpp/scatter_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/unary_call.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"

namespace dslide {

ScatterQueue::ScatterQueue(ShardClient& shard, ClientOptions options, ClientId client,
                           uint64_t topology_version)
    : shard_(shard),
      options_(std::move(options)),
      client_(client),
      topology_version_(topology_version) {}

ScatterQueue::~ScatterQueue() {
  bool started = false;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    started = started_;
  }
  if (!started) return;
  thread_.join();
  // The shard would keep the client's state for nobody; that it cannot be told is no matter.
  if (introduced_) (void)shard_.CloseClient(CloseClientCommand{options_.job, client_});
}

void ScatterQueue::Submit(ScatterCommand command, std::function<void(ScatterResult)> done) {
  absl::MutexLock lock(&mu_);
  items_.push_back({std::make_shared<ScatterCommand>(std::move(command)), std::move(done),
                    absl::Now() + options_.timeout});
  if (!started_) {
    started_ = true;
    thread_ = std::thread([this] { Run(); });
  }
}

void ScatterQueue::Run() {
  for (;;) {
    Item item;
    {
      absl::MutexLock lock(&mu_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return stopping_ || !items_.empty();
      };
      mu_.Await(absl::Condition(&has_work));
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
    }
    ScatterResult result = Send(item);
    // A number whose fate is unknown may not be given to another scatter: ask before the next one.
    // A refusal may have used its number up or not.
    if (result.outcome != Outcome::kApplied) introduced_ = false;
    if (result.outcome == Outcome::kApplied) ++next_sequence_;
    item.done(std::move(result));
  }
}

absl::StatusOr<Outcome> ScatterQueue::Ask(uint64_t sequence, absl::Time deadline) {
  HelloCommand hello;
  hello.job = options_.job;
  hello.client = client_;
  hello.acknowledged_sequence = sequence - 1;
  ASSIGN_OR_RETURN(const ShardGreeting greeting, shard_.Hello(hello, deadline - absl::Now()));
  const HelloReply& reply = greeting.reply;
  generation_ = reply.generation;
  introduced_ = true;
  if (reply.next_sequence == sequence) return Outcome::kNotApplied;
  if (reply.next_sequence == sequence + 1) return Outcome::kApplied;
  if (reply.next_sequence < sequence) {
    next_sequence_ = reply.next_sequence;
    return StatusWithReason(absl::StatusCode::kDataLoss, "LOST_UPDATES",
                            absl::StrCat(shard_.peer(), " expects update ", reply.next_sequence,
                                         " of this client, but ", sequence - 1,
                                         " were confirmed: it was restarted and has lost updates"));
  }
  return absl::InternalError(absl::StrCat(shard_.peer(), " expects update ", reply.next_sequence,
                                          " of this client, which has sent ", sequence));
}

ScatterResult ScatterQueue::Send(Item& item) {
  const uint64_t salt = client_[0];
  if (!introduced_) {
    // Resolves a former scatter of unknown fate, too: its number is used or free.
    const absl::StatusOr<Outcome> former = Ask(next_sequence_, item.deadline);
    if (!former.ok()) return {former.status(), Outcome::kNotApplied, 0};
    if (*former == Outcome::kApplied) ++next_sequence_;
  }
  // The envelope is copied when a message is made; the transport shares only the rows.
  Envelope& envelope = item.command->envelope;
  envelope.job = options_.job;
  envelope.client = client_;
  envelope.topology_version = topology_version_;
  envelope.sequence = next_sequence_;
  envelope.first_incomplete = next_sequence_;
  ScatterResult result;
  for (int attempt = 1;; ++attempt) {
    envelope.generation = generation_;
    result = shard_.Scatter(item.command, item.deadline - absl::Now());
    const bool slow_down =
        result.outcome == Outcome::kNotApplied &&
        (absl::IsResourceExhausted(result.status) || absl::IsUnavailable(result.status));
    // The shard was restarted since the last greeting, or does not know this client yet.
    const std::string word(ReasonOf(result.status));
    const bool stale = word == reason::kStaleGeneration || word == reason::kUnknownClient;
    if (result.outcome != Outcome::kUnknown && !slow_down && !stale) return result;
    const absl::Duration pause = PauseBefore(result.status, options_.retry, attempt, salt);
    if (absl::Now() + pause >= item.deadline) return result;
    absl::SleepFor(pause);
    if (slow_down) continue;
    const absl::StatusOr<Outcome> fate = Ask(next_sequence_, item.deadline);
    if (!fate.ok()) {
      if (absl::IsDataLoss(fate.status())) return {fate.status(), Outcome::kUnknown, 0};
      continue;
    }
    // Applied, and its answer was lost: the same request again gets it.
  }
}

}  // namespace dslide
