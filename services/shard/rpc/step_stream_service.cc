#include "services/shard/rpc/step_stream_service.h"

#include <utility>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/log/logged_command.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_request.h"

namespace dslide::shard {
namespace {

// Memory of a queued command beside its arrays.
constexpr int64_t kCommandBytes = 512;

Answer ErrorAnswer(absl::Status status, uint64_t generation) {
  auto reply = std::make_shared<Reply>();
  reply->status = std::move(status);
  return {.reply = std::move(reply), .generation = generation};
}

// What the log keeps: the bytes that were received, where they lie; or what they were refused with.
wire::LoggedCommand LogOf(const Command& command,
                          const std::shared_ptr<const MessageSlices>& message) {
  if (const auto* refused = std::get_if<RefusedCommand>(&command)) {
    return wire::LogRefused(*refused);
  }
  return {.kind = wire::LoggedKind::kStep, .payload = message->pieces, .memory = {message}};
}

}  // namespace

StepStream::StepStream(ServiceContext& shared, grpc::CallbackServerContext* context)
    : shared_(shared),
      context_(context),
      peer_(PeerOf(shared, *context)),
      record_(shared, "Step", context->client_metadata()) {
  const bool open = shared_.streams.Add(this);
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    if (!open) stopping_ = true;
    next = NextAction();
  }
  Perform(next);
}

bool StepStream::HasRoom() const {
  const ServiceLimits& limits = shared_.limits;
  return static_cast<int64_t>(slots_.size()) < limits.stream_requests &&
         bytes_ < limits.stream_bytes;
}

StepStream::Next StepStream::NextAction() {
  Next next;
  if (finished_) return next;
  if (!writing_ && broken_) {
    // Answers nobody wants; those that are still to come keep the stream alive.
    while (!slots_.empty() && slots_.front().ready) {
      bytes_ -= slots_.front().bytes;
      slots_.pop_front();
      ++first_id_;
    }
  } else if (!writing_ && !slots_.empty() && slots_.front().ready) {
    next.slot = std::move(slots_.front());
    slots_.pop_front();
    ++first_id_;
    bytes_ -= next.slot.bytes;
    next.write = writing_ = true;
  }
  const bool ending = reads_done_ || broken_ || stopping_;
  if (ending && slots_.empty() && !writing_ && !handling_) {
    next.finish = finished_ = true;
  } else if (!ending && !reading_ && !handling_ && HasRoom()) {
    next.read = reading_ = true;
  }
  return next;
}

void StepStream::Perform(const Next& next) {
  if (next.write) {
    const absl::Duration start = shared_.clock->Now();
    response_.Clear();
    wire::EncodeStepResponse(next.slot.sequence, next.slot.answer.generation,
                             *next.slot.answer.reply, next.slot.answer.activations, &response_);
    grpc::Slice bytes(response_.ByteSizeLong());
    (void)response_.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(bytes.begin()));
    record_.Sent(bytes.size());
    if (next.slot.answer.reply->status.ok()) {
      shared_.metrics->RecordTraffic(next.slot.what,
                                     {.received_messages = 1,
                                      .received_bytes = next.slot.bytes,
                                      .sent_messages = 1,
                                      .sent_bytes = static_cast<int64_t>(bytes.size())});
    } else {
      record_.LogError(next.slot.answer.reply->status);
    }
    sending_ = grpc::ByteBuffer(&bytes, 1);
    shared_.metrics->RecordEncode(shared_.clock->Now() - start);
    StartWrite(&sending_);
  }
  if (next.read) StartRead(&received_);
  if (next.finish) {
    bool stopped;
    {
      const absl::MutexLock lock(&mu_);
      stopped = stopping_ && !reads_done_;
    }
    Finish(record_.Finish(
        stopped ? StatusWithReason(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                                   "the shard is shutting down: open the stream to its successor")
                : absl::OkStatus()));
  }
}

void StepStream::OnReadDone(bool ok) {
  uint64_t id = 0;
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    reading_ = false;
    if (!ok) reads_done_ = true;
    // What arrives when the stream is about to end is not applied: the client will send it again.
    const bool wanted = ok && !finished_ && !stopping_ && !broken_;
    if (wanted) {
      handling_ = true;
      id = first_id_ + slots_.size();
      const auto bytes = static_cast<int64_t>(received_.Length());
      slots_.push_back({.sequence = 0, .bytes = bytes, .ready = false, .answer = {}});
      bytes_ += bytes;
    }
    ok = wanted;
    if (!ok) next = NextAction();
  }
  if (!ok) return Perform(next);
  record_.Received(received_.Length());
  Handle(TakeSlices(received_), id);
  {
    const absl::MutexLock lock(&mu_);
    handling_ = false;
    next = NextAction();
  }
  Perform(next);
}

void StepStream::Handle(const std::shared_ptr<const MessageSlices>& message, uint64_t id) {
  const absl::Duration start = shared_.clock->Now();
  int64_t bytes = 0;
  for (const absl::string_view piece : message->pieces) bytes += static_cast<int64_t>(piece.size());
  const absl::Status readable = wire::ParseStepRequest(message->pieces, &request_);
  {
    const absl::MutexLock lock(&mu_);
    slots_[id - first_id_].sequence = request_.envelope().sequence();
  }
  absl::StatusOr<Command> command =
      readable.ok() ? wire::DecodeStepMutation(request_) : absl::StatusOr<Command>(readable);
  if (!command.ok()) {
    // Nobody to remember the answer for.
    shared_.metrics->RecordRefusal(command.status());
    return Complete(id, ErrorAnswer(command.status(), shared_.generation));
  }
  Sequencer::Request queued;
  queued.command = *std::move(command);
  {
    const absl::MutexLock lock(&mu_);
    slots_[id - first_id_].what = OperationOf(queued.command);
  }
  if (shared_.log_commands) queued.logged = LogOf(queued.command, message);
  // In memory, 16-bit numbers take 32 bits.
  queued.bytes = kCommandBytes + (shared_.log_commands ? 3 : 2) * bytes;
  queued.admit = AdmitCommand(shared_, context_, peer_, queued.command);
  queued.done = [this, id](Answer answer) { Complete(id, std::move(answer)); };
  shared_.metrics->RecordDecode(shared_.clock->Now() - start);
  if (absl::Status submitted = shared_.sequencer->Submit(std::move(queued)); !submitted.ok()) {
    shared_.metrics->RecordRefusal(submitted);
    Complete(id, ErrorAnswer(std::move(submitted), shared_.generation));
  }
}

void StepStream::Complete(uint64_t id, Answer answer) {
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    Slot& slot = slots_[id - first_id_];
    slot.answer = std::move(answer);
    slot.ready = true;
    next = NextAction();
  }
  Perform(next);
}

void StepStream::OnWriteDone(bool ok) {
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) broken_ = true;
    next = NextAction();
  }
  Perform(next);
}

void StepStream::OnCancel() {
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    broken_ = true;
    next = NextAction();
  }
  Perform(next);
}

void StepStream::Stop() {
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
    next = NextAction();
  }
  Perform(next);
}

void StepStream::OnDone() {
  shared_.streams.Remove(this);
  delete this;
}

}  // namespace dslide::shard
