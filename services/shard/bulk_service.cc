#include "services/shard/bulk_service.h"

#include <utility>
#include <variant>

#include "core/base/reason.h"
#include "core/wire/reason_words.h"
#include "services/shard/client_table.h"

namespace dslide::shard {
namespace {

// Bulk calls have a budget of their own; in the queue they count like any other command.
constexpr int64_t kQueuedBytes = 64 << 10;

}  // namespace

GatherCall::GatherCall(ServiceContext& shared, grpc::CallbackServerContext* context,
                       const v1::GatherRequest& request)
    : shared_(shared), record_(shared, "Gather") {
  record_.Received(request.ByteSizeLong());
  Start(context, request);
}

void GatherCall::Start(grpc::CallbackServerContext* context, const v1::GatherRequest& request) {
  absl::StatusOr<wire::GatherCall> call = wire::DecodeGatherRequest(request);
  if (!call.ok()) {
    shared_.metrics->RecordRefusal(call.status());
    return Finish(record_.Finish(call.status()));
  }
  element_type_ = call->element_type;
  Sequencer::Request queued;
  queued.command = std::move(call->command);
  queued.bytes = kQueuedBytes;
  queued.admit = [this, cancelled = RefuseCancelled(context)] {
    const absl::Status alive = cancelled();
    // The size of the answer is not known yet: there must be room at all.
    return alive.ok() ? record_.TakeBulk(kQueuedBytes) : alive;
  };
  queued.done = [this](Answer answer) {
    answer_ = std::move(answer);
    if (!answer_.reply->status.ok()) return Finish(record_.Finish(answer_.reply->status));
    record_.ForceBulk(ReplyBytes(*answer_.reply));
    chunker_.emplace(std::get<GatherReply>(answer_.reply->body), element_type_);
    WriteNext();
  };
  const absl::Status submitted = shared_.sequencer->Submit(std::move(queued));
  if (submitted.ok()) return;
  shared_.metrics->RecordRefusal(submitted);
  Finish(record_.Finish(submitted));
}

void GatherCall::WriteNext() {
  if (!chunker_->Next(&response_)) return Finish(record_.Finish(absl::OkStatus()));
  record_.Sent(response_.ByteSizeLong());
  StartWrite(&response_);
}

void GatherCall::OnWriteDone(bool ok) {
  if (ok) return WriteNext();
  Finish(record_.Finish(absl::CancelledError("the caller is gone")));
}

ScatterCall::ScatterCall(ServiceContext& shared, grpc::CallbackServerContext* context,
                         v1::ScatterResponse* response)
    : shared_(shared),
      context_(context),
      response_(response),
      record_(shared, "Scatter"),
      assembler_(shared.limits.scatter_bytes) {
  StartRead(&request_);
}

void ScatterCall::OnReadDone(bool ok) {
  if (!ok) {
    // The end of the stream, or of the connection: the number of rows tells them apart.
    absl::StatusOr<ScatterCommand> command = std::move(assembler_).Finish();
    if (!command.ok()) {
      shared_.metrics->RecordRefusal(command.status());
      return End(command.status());
    }
    return Submit(*std::move(command));
  }
  record_.Received(request_.ByteSizeLong());
  if (const absl::Status added = Add(); !added.ok()) return Refuse(added);
  StartRead(&request_);
}

absl::Status ScatterCall::Add() {
  // Twice: 16-bit numbers take 32 bits in memory.
  if (absl::Status room = record_.TakeBulk(2 * static_cast<int64_t>(request_.ByteSizeLong()));
      !room.ok()) {
    return room;
  }
  return assembler_.Add(request_);
}

void ScatterCall::Refuse(const absl::Status& refusal) {
  if (!assembler_.has_envelope() || !absl::IsInvalidArgument(refusal)) {
    shared_.metrics->RecordRefusal(refusal);
    return End(refusal);
  }
  Submit(RefusedCommand{.envelope = assembler_.envelope(), .refusal = refusal});
}

void ScatterCall::Submit(Command command) {
  Sequencer::Request queued;
  queued.command = std::move(command);
  queued.bytes = kQueuedBytes;
  queued.admit = RefuseCancelled(context_);
  queued.done = [this](const Answer& answer) {
    if (const auto* reply = std::get_if<ScatterReply>(&answer.reply->body)) {
      response_->set_generation(answer.generation);
      response_->set_applied_steps(reply->applied_steps);
      record_.Sent(response_->ByteSizeLong());
    }
    End(answer.reply->status);
  };
  const absl::Status submitted = shared_.sequencer->Submit(std::move(queued));
  if (submitted.ok()) return;
  shared_.metrics->RecordRefusal(submitted);
  End(submitted);
}

void ScatterCall::End(const absl::Status& status) { Finish(record_.Finish(status)); }

}  // namespace dslide::shard
