#include "client/cpp/shard_stream.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/grpc_status.h"
#include "client/cpp/wire_counters.h"
#include "core/base/clock.h"
#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/request_id.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_codec.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide {
namespace {

// The stream itself lives as long as the client: only its operations have deadlines.
constexpr absl::Duration kStreamLifetime = absl::Hours(24 * 365);

struct Unanswered {
  uint64_t sequence = 0;
  std::shared_ptr<v1::StepRequest> request;
  std::shared_ptr<PendingStep> pending;
  bool held_before = false;  // refused for the moment, and sent again
  absl::Duration sent;       // when it was handed to gRPC last, by the steady clock
};

// Refusals of the moment, which leave the sequence unused.
bool IsTransient(const absl::Status& refusal) {
  return absl::IsResourceExhausted(refusal) || absl::IsUnavailable(refusal) ||
         absl::IsAborted(refusal);
}

// What an operation asks for and the shard would leave out without a word; null: nothing.
const char* Unknown(const StepOp& op, const StepCapabilities& known) {
  if (const auto* const head = std::get_if<HeadForwardOp>(&op); head != nullptr) {
    if (!head->explicit_rows.empty() && !known.explicit_rows) return "explicit rows";
    if (!head->label_weights.empty() && !known.label_weights) return "weights of labels";
  }
  const auto* const embed = std::get_if<EmbedForwardOp>(&op);
  const auto* const dense = std::get_if<DenseGatherOp>(&op);
  const bool averaged =
      (embed != nullptr && embed->averaged) || (dense != nullptr && dense->averaged);
  return averaged && !known.averaged_rows ? "averages of rows" : nullptr;
}

}  // namespace

// Everything is guarded by `mu`. One Reactor at a time carries the stream; the reconnector thread
// makes the next one after a break.
struct ShardStream::Impl : std::enable_shared_from_this<ShardStream::Impl> {
  class Reactor;

  Impl(ShardClient& shard_client, ShardStreamOptions stream_options, WireCounters& wire_counters)
      : shard(shard_client),
        options(std::move(stream_options)),
        request_id(wire::RequestIdOrNew(options.request_id)),
        no_answer(wire::NameRequest(absl::DeadlineExceededError(NoAnswer("")), request_id)),
        counters(wire_counters),
        stub(v1::ShardService::NewStub(shard.channel())) {}

  absl::Status Hello(absl::Time deadline);
  // The text of the error at the deadline; `why` may be empty.
  std::string NoAnswer(absl::string_view why) const;
  std::shared_ptr<PendingStep> Send(int64_t step, int64_t first_open_step, StepOp op);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void OnResponse(const v1::StepResponse& response);
  bool Hold(const absl::Status& refusal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Resume() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  bool CanResume() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return reactor != nullptr && held > 0 && held == written;
  }
  void OnBroken(const absl::Status& status);
  void Reconnect();
  void RunReconnector();
  void FailAll(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void StartReactor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Stop();

  ShardClient& shard;
  const ShardStreamOptions options;
  const std::string request_id;
  const absl::Status no_answer;  // of operations whose deadline has passed
  WireCounters& counters;
  const std::unique_ptr<v1::ShardService::Stub> stub;
  std::thread reconnector;

  absl::Mutex mu;
  StepCapabilities shard_can ABSL_GUARDED_BY(mu);  // as it last said
  bool stopping ABSL_GUARDED_BY(mu) = false;
  absl::Status failure ABSL_GUARDED_BY(mu);  // not OK: every operation ends with it
  absl::Status last_break ABSL_GUARDED_BY(mu);
  uint64_t generation ABSL_GUARDED_BY(mu) = 0;
  uint64_t next_sequence ABSL_GUARDED_BY(mu) = 1;
  uint64_t confirmed ABSL_GUARDED_BY(mu) = 0;             // the highest that got no error
  std::deque<Unanswered> unanswered ABSL_GUARDED_BY(mu);  // by sequence, without gaps
  size_t written ABSL_GUARDED_BY(mu) = 0;                 // of them, handed to the present stream
  size_t held ABSL_GUARDED_BY(mu) = 0;                    // of those, refused and to be sent again
  absl::Time resume_at ABSL_GUARDED_BY(mu);
  bool greet ABSL_GUARDED_BY(mu) = false;          // the shard is of another generation now
  uint64_t last_resent ABSL_GUARDED_BY(mu) = 0;    // on the present stream, the last that was held
  Reactor* reactor ABSL_GUARDED_BY(mu) = nullptr;  // owns itself until OnDone
  int64_t live_reactors ABSL_GUARDED_BY(mu) = 0;
  bool writable ABSL_GUARDED_BY(mu) = false;
  bool writing ABSL_GUARDED_BY(mu) = false;
  int64_t reconnects ABSL_GUARDED_BY(mu) = 0;
};

// One gRPC stream. Its hold keeps OnDone away while other threads may start writes; it is given
// back when the first read fails.
class ShardStream::Impl::Reactor final
    : public grpc::ClientBidiReactor<v1::StepRequest, v1::StepResponse> {
 public:
  explicit Reactor(std::shared_ptr<Impl> owner) : owner_(std::move(owner)) {
    PrepareContext(context_, absl::Now() + kStreamLifetime, owner_->request_id);
  }

  void Start() {
    owner_->stub->async()->Step(&context_, this);
    AddHold();
    StartRead(&response_);
    StartCall();
  }

  void Write(std::shared_ptr<v1::StepRequest> request) {
    request_ = std::move(request);
    owner_->counters.AddSent(WireMethod::kStep, request_->ByteSizeLong());
    StartWrite(request_.get());
  }

  void Cancel() { context_.TryCancel(); }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&owner_->mu);
    owner_->writing = false;
    if (ok) owner_->WriteNext();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        absl::MutexLock lock(&owner_->mu);
        if (owner_->reactor == this) owner_->writable = false;
      }
      RemoveHold();
      return;
    }
    owner_->counters.AddReceived(WireMethod::kStep, response_.ByteSizeLong());
    owner_->OnResponse(response_);
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Impl> owner = owner_;
    const absl::Status why = status.ok()
                                 ? absl::UnavailableError(absl::StrCat(
                                       owner->shard.peer(), ", Step: the shard ended the stream"))
                                 : FromGrpc(status, owner->shard.peer(), "Step", owner->request_id);
    delete this;
    owner->OnBroken(why);
  }

 private:
  const std::shared_ptr<Impl> owner_;  // shared: outlives the ShardStream while it is cancelled
  grpc::ClientContext context_;
  v1::StepResponse response_;
  std::shared_ptr<v1::StepRequest> request_;  // being written; shared with `unanswered`
};

absl::Status ShardStream::Impl::Hello(absl::Time deadline) {
  HelloCommand hello;
  hello.job = options.job;
  hello.client = options.client;
  {
    absl::MutexLock lock(&mu);
    hello.acknowledged_sequence = confirmed;
  }
  ASSIGN_OR_RETURN(const ShardGreeting greeting, shard.Hello(hello, deadline - absl::Now()));
  const HelloReply& reply = greeting.reply;
  absl::MutexLock lock(&mu);
  shard_can = greeting.capabilities;
  // Numbers between the two were refused without being used, and given up.
  if (reply.next_sequence <= confirmed || reply.next_sequence > next_sequence) {
    return StatusWithReason(
        absl::StatusCode::kDataLoss, "LOST_UPDATES",
        absl::StrCat(shard.peer(), " expects update ", reply.next_sequence, " of this client, but ",
                     confirmed, " were confirmed: it was restarted and has lost updates; restore ",
                     "a checkpoint and start the training again"));
  }
  if (reply.generation != generation) {
    generation = reply.generation;
    for (Unanswered& entry : unanswered) {
      // A message that is being written may not change: make a new one.
      auto request = std::make_shared<v1::StepRequest>(*entry.request);
      request->mutable_envelope()->set_generation(generation);
      entry.request = std::move(request);
    }
  }
  return absl::OkStatus();
}

std::string ShardStream::Impl::NoAnswer(absl::string_view why) const {
  return absl::StrCat(
      "no answer from ", shard.peer(), " within ", absl::FormatDuration(options.timeout),
      why.empty() ? "" : ": ", why,
      absl::StrContains(why, kSilentShardRemedy) ? "" : absl::StrCat("; ", kSilentShardRemedy));
}

std::shared_ptr<PendingStep> ShardStream::Impl::Send(int64_t step, int64_t first_open_step,
                                                     StepOp op) {
  auto pending = std::make_shared<PendingStep>(absl::Now() + options.timeout, no_answer);
  StepCapabilities known;
  {
    const absl::MutexLock lock(&mu);
    known = shard_can;
  }
  if (const char* const unknown = Unknown(op, known); unknown != nullptr) {
    pending->Complete(
        absl::FailedPreconditionError(
            absl::StrCat(shard.peer(), " is of a version that takes no ", unknown, ": upgrade it")),
        Outcome::kNotApplied);
    return pending;
  }
  auto request = std::make_shared<v1::StepRequest>();
  StepCommand command;
  command.envelope.job = options.job;
  command.envelope.client = options.client;
  command.envelope.topology_version = options.topology_version;
  command.envelope.model = options.model;
  command.step = step;
  command.first_open_step = first_open_step;
  command.op = std::move(op);
  wire::EncodeStepRequest(command,
                          {.activations = options.activations,
                           .packed = known.packed_steps,
                           .sparse = known.sparse_matrices},
                          request.get());
  // gRPC would break the stream for it, again and again. 64: the numbers that are set below.
  if (const size_t bytes = request->ByteSizeLong() + 64; bytes > size_t{kMaxMessageBytes}) {
    pending->Complete(
        StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOverLimit,
                         absl::StrCat("the request has ", bytes, " bytes, a message to ",
                                      shard.peer(), " holds ", kMaxMessageBytes,
                                      ": give a smaller --batch-size, or more shards")),
        Outcome::kNotApplied);
    return pending;
  }

  absl::MutexLock lock(&mu);
  if (!failure.ok()) {
    pending->Complete(failure, Outcome::kNotApplied);
    return pending;
  }
  Unanswered entry;
  entry.sequence = next_sequence++;
  v1::RequestEnvelope& envelope = *request->mutable_envelope();
  envelope.set_sequence(entry.sequence);
  envelope.set_first_incomplete(unanswered.empty() ? entry.sequence : unanswered.front().sequence);
  envelope.set_generation(generation);
  entry.request = std::move(request);
  entry.pending = pending;
  unanswered.push_back(std::move(entry));
  WriteNext();
  return pending;
}

void ShardStream::Impl::WriteNext() {
  if (!writable || writing || held > 0 || written >= unanswered.size()) return;
  writing = true;
  unanswered[written].sent = SteadyClock().Now();
  reactor->Write(unanswered[written++].request);
}

void ShardStream::Impl::OnResponse(const v1::StepResponse& response) {
  absl::StatusOr<wire::StepAnswer> answer = wire::DecodeStepResponse(response);
  const absl::Status refusal = answer.ok() ? answer->reply.status : absl::OkStatus();
  std::shared_ptr<PendingStep> pending;
  absl::Duration sent;
  {
    absl::MutexLock lock(&mu);
    const uint64_t expected = held < unanswered.size() ? unanswered[held].sequence : next_sequence;
    // The repetition of an answer; of those that were held, the last one's may come late.
    if (response.sequence() < expected) return;
    if (response.sequence() > expected && response.sequence() == last_resent) return;
    if (response.sequence() > expected || held >= unanswered.size()) {
      FailAll(absl::InternalError(absl::StrCat(shard.peer(), " answered request ",
                                               response.sequence(), " instead of ", expected,
                                               ": it does not keep the order")));
      return;
    }
    if (Hold(refusal)) return;
    pending = std::move(unanswered.front().pending);
    sent = unanswered.front().sent;
    if (answer.ok() && refusal.ok()) confirmed = unanswered.front().sequence;
    unanswered.pop_front();
    if (written > 0) --written;
  }
  if (options.on_round_trip) options.on_round_trip(shard.shard(), SteadyClock().Now() - sent);
  if (!answer.ok()) {
    pending->Complete(answer.status(), Outcome::kUnknown);
  } else if (!refusal.ok()) {
    pending->Complete(wire::NameRequest(refusal, request_id), Outcome::kNotApplied);
  } else {
    pending->Complete(std::move(answer->reply.body), Outcome::kApplied);
  }
}

// Whether the request that was just refused stays in `unanswered`. The shard then refuses those
// behind it for the gap that it leaves; all are sent again when the last of them was answered.
bool ShardStream::Impl::Hold(const absl::Status& refusal) {
  const std::string why = ReasonOf(refusal);
  const bool gap = why == reason::kSequenceGap;
  if (held == 0) {
    Unanswered& entry = unanswered.front();
    // A gap in front: an earlier request was refused for good. Sent again, this one gives that
    // number up; a second gap means something else. With a new generation Hello comes first.
    const bool stale =
        why == reason::kStaleGeneration || (why == reason::kUnknownClient && confirmed == 0);
    const bool again = IsTransient(refusal) || ((gap || stale) && !entry.held_before);
    const absl::Duration pause =
        std::max(options.retry.first_delay, absl::Milliseconds(RetryAfterMs(refusal)));
    const absl::Time again_at = absl::Now() + (gap || stale ? absl::ZeroDuration() : pause);
    // Too late to be sent again: the shard's reason says more than silence at the deadline.
    if (!again || again_at >= entry.pending->deadline()) return false;
    entry.held_before = true;
    greet = stale;
    resume_at = again_at;
    last_break = refusal;
  }
  ++held;
  return true;
}

// Sends again what was held. The numbers given up meanwhile are named by a higher first_incomplete.
void ShardStream::Impl::Resume() {
  last_resent = unanswered[held - 1].sequence;
  held = 0;
  written = 0;
  const uint64_t first = unanswered.front().sequence;
  for (Unanswered& entry : unanswered) {
    // The old message may still be in gRPC's hands: change a copy.
    auto request = std::make_shared<v1::StepRequest>(*entry.request);
    request->mutable_envelope()->set_first_incomplete(first);
    request->mutable_envelope()->set_generation(generation);
    entry.request = std::move(request);
  }
  WriteNext();
}

void ShardStream::Impl::OnBroken(const absl::Status& status) {
  absl::MutexLock lock(&mu);
  reactor = nullptr;
  writable = false;
  writing = false;
  written = 0;
  held = 0;
  greet = false;
  last_break = status;
  --live_reactors;
}

void ShardStream::Impl::FailAll(const absl::Status& status) {
  failure = status;
  for (const Unanswered& entry : unanswered) entry.pending->Complete(status, Outcome::kUnknown);
  unanswered.clear();
  written = 0;
  held = 0;
}

void ShardStream::Impl::StartReactor() {
  reactor = new Reactor(shared_from_this());
  ++live_reactors;
  written = 0;
  last_resent = 0;
  writing = false;
  writable = true;
  reactor->Start();
  WriteNext();
}

// Opens the stream again, within the deadline of the oldest operation.
void ShardStream::Impl::Reconnect() {
  absl::Time deadline;
  {
    absl::MutexLock lock(&mu);
    deadline = unanswered.front().pending->deadline();
  }
  CounterRng salt(DeriveKey(options.client[0], static_cast<uint64_t>(shard.shard().value())));
  const uint64_t key = salt.NextBits();
  absl::Status status;
  for (int attempt = 1;; ++attempt) {
    status = Hello(deadline);
    absl::MutexLock lock(&mu);
    if (stopping) return;
    if (status.ok()) {
      ++reconnects;
      StartReactor();
      return;
    }
    const bool transient = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (!transient || absl::Now() >= deadline) break;
    const auto stop_now = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return stopping; };
    if (mu.AwaitWithTimeout(absl::Condition(&stop_now), options.retry.Delay(attempt, key))) return;
  }
  absl::MutexLock lock(&mu);
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    // What broke the stream says more than that the time for mending it is over.
    const absl::Status& why =
        absl::IsDeadlineExceeded(status) && !last_break.ok() ? last_break : status;
    status = StatusWithReason(why.code(), ReasonOf(why), NoAnswer(why.message()));
  }
  FailAll(status);
}

void ShardStream::Impl::RunReconnector() {
  for (;;) {
    {
      absl::MutexLock lock(&mu);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
        return stopping || (reactor == nullptr && failure.ok() && !unanswered.empty()) ||
               CanResume();
      };
      mu.Await(absl::Condition(&has_work));
      if (stopping) return;
      if (CanResume()) {
        const auto changed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
          return stopping || !CanResume();
        };
        if (mu.AwaitWithDeadline(absl::Condition(&changed), resume_at)) continue;
        if (!greet) Resume();
        if (greet) reactor->Cancel();  // a new stream begins with Hello, which learns it
        if (greet) resume_at = absl::InfiniteFuture();
        continue;
      }
    }
    Reconnect();
  }
}

void ShardStream::Impl::Stop() {
  {
    absl::MutexLock lock(&mu);
    if (stopping) return;
    stopping = true;
    FailAll(absl::CancelledError(absl::StrCat("the stream to ", shard.peer(), " was closed")));
    if (reactor != nullptr) reactor->Cancel();
  }
  reconnector.join();
  absl::MutexLock lock(&mu);
  const auto quiet = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return live_reactors == 0; };
  mu.Await(absl::Condition(&quiet));
}

absl::StatusOr<std::unique_ptr<ShardStream>> ShardStream::Open(ShardClient& shard,
                                                               ShardStreamOptions options,
                                                               WireCounters& counters) {
  auto impl = std::make_shared<Impl>(shard, std::move(options), counters);
  RETURN_IF_ERROR(impl->Hello(absl::Now() + impl->options.timeout));
  {
    absl::MutexLock lock(&impl->mu);
    impl->StartReactor();
  }
  impl->reconnector = std::thread([raw = impl.get()] { raw->RunReconnector(); });
  return std::unique_ptr<ShardStream>(new ShardStream(std::move(impl)));
}

ShardStream::ShardStream(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

ShardStream::~ShardStream() { impl_->Stop(); }

std::shared_ptr<PendingStep> ShardStream::Send(int64_t step, int64_t first_open_step, StepOp op) {
  return impl_->Send(step, first_open_step, std::move(op));
}

absl::Status ShardStream::Close() {
  impl_->Stop();
  return impl_->shard.CloseClient(CloseClientCommand{impl_->options.job, impl_->options.client});
}

int64_t ShardStream::reconnects() const {
  absl::MutexLock lock(&impl_->mu);
  return impl_->reconnects;
}

}  // namespace dslide
