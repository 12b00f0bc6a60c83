#include "services/shard/rpc/bulk_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/net/rpc/byte_slices.h"
#include "core/protocol/reason_words.h"
#include "core/wire/bulk/bulk_frames.h"
#include "core/wire/row_codec.h"
#include "dslide/v1/shard.pb.h"
#include "services/common/unary.h"

namespace dslide::shard {
namespace {

// Bulk calls have a budget of their own; in the queue they count like any other command.
constexpr int64_t kQueuedBytes = 64 << 10;

absl::StatusOr<wire::GatherCall> DecodeGather(const grpc::ByteBuffer& bytes) {
  grpc::ByteBuffer copy = bytes;  // of references; parsing uses it up
  const std::shared_ptr<const MessageSlices> message = TakeSlices(copy);
  std::string whole;
  for (const absl::string_view piece : message->pieces) whole.append(piece.data(), piece.size());
  v1::GatherRequest request;
  if (!request.ParseFromString(whole)) {
    return wire::Refusal(reason::kBadMessage, "GatherRequest",
                         "is cut or garbled: its bytes are no such message");
  }
  return wire::DecodeGatherRequest(request);
}

}  // namespace

GatherCall::GatherCall(ServiceContext& shared, grpc::CallbackServerContext* context,
                       const grpc::ByteBuffer& request)
    : shared_(shared), record_(shared, "Gather", context->client_metadata()) {
  record_.Received(request.Length());
  Start(context, request);
}

void GatherCall::Start(grpc::CallbackServerContext* context, const grpc::ByteBuffer& request) {
  absl::StatusOr<wire::GatherCall> call = DecodeGather(request);
  if (!call.ok()) {
    shared_.metrics->RecordRefusal(call.status());
    return Finish(record_.Finish(call.status()));
  }
  element_type_ = call->element_type;
  call->command.sink = this;
  Sequencer::Request queued;
  queued.command = std::move(call->command);
  record_.Of(OperationOf(queued.command));
  queued.bytes = kQueuedBytes;
  queued.patience = RemainingTime(*context, absl::InfiniteDuration());
  queued.admit = [this, cancelled = RefuseCancelled(context)] {
    const absl::Status alive = cancelled();
    // The size of the answer is not known yet: there must be room at all.
    return alive.ok() ? record_.TakeBulk(kQueuedBytes) : alive;
  };
  queued.done = [this](const Answer& answer) { Answered(answer.reply->status); };
  const absl::Status submitted = shared_.sequencer->Submit(std::move(queued));
  if (submitted.ok()) return;
  shared_.metrics->RecordRefusal(submitted);
  Finish(record_.Finish(submitted));
}

absl::StatusOr<const RowChunks*> GatherCall::Begin(int64_t rows, bool has_bias,
                                                   const GatherReply& reply) {
  const int64_t dim = reply.rows.dim;
  const int64_t step = wire::RowsPerChunk(wire::kChunkBytes, dim, element_type_, has_bias);
  RETURN_IF_ERROR(record_.TakeBulk((rows + step - 1) / step * kBulkBufferBytes));
  const absl::MutexLock lock(&mu_);
  // What was selected may fill a message by itself; and an answer has at least one message.
  const bool separate = !reply.sample_offsets.empty() || rows == 0;
  if (separate) {
    v1::GatherResponse first;
    first.set_total_rows(rows);
    wire::EncodeU32s(reply.sample_offsets, first.mutable_sample_offsets());
    wire::EncodeRowIds(reply.sample_rows, first.mutable_sample_row_ids());
    if (rows == 0) wire::EncodeRowBlock(reply.rows, element_type_, first.mutable_rows());
    first_ = first.SerializeAsString();
  }
  chunks_.type = element_type_;
  chunks_.rows_per_chunk = step;
  messages_.reserve(static_cast<size_t>((rows + step - 1) / step));
  for (int64_t row = 0; row < rows; row += step) {
    const wire::GatherFrame frame({.count = std::min(step, rows - row),
                                   .dim = dim,
                                   .type = element_type_,
                                   .has_bias = has_bias,
                                   .total_rows = row == 0 && !separate ? rows : 0});
    Message& message = messages_.emplace_back();
    message.buffer = shared_.bulk_buffers.Take();
    message.start = frame.lead();
    message.size = frame.size();
    chunks_.chunks.push_back(frame.Write(message.buffer.data() + message.start));
  }
  return &chunks_;
}

void GatherCall::Filled(size_t chunk) {
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    messages_[chunk].filled = true;
    next = NextAction();
  }
  Perform(std::move(next));
}

void GatherCall::Answered(const absl::Status& status) {
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    answer_ = status;
    next = NextAction();
  }
  Perform(std::move(next));
}

GatherCall::Next GatherCall::NextAction() {
  Next next;
  if (writing_) return next;
  // With a command log the answer says when everything that the rows show is safe.
  const bool may_send = answer_.has_value() ? answer_->ok() : !shared_.log_commands;
  if (!broken_ && may_send) {
    if (!first_.empty()) {
      next.write = grpc::Slice(std::exchange(first_, {}));
    } else if (next_ < messages_.size() && messages_[next_].filled) {
      Message& message = messages_[next_++];
      const absl::string_view bytes(message.buffer.data() + message.start,
                                    static_cast<size_t>(message.size));
      next.write = OwnedSlice(bytes, std::move(message.buffer));
    }
  }
  writing_ = next.write.has_value();
  next.finish = answer_.has_value() && !writing_;
  return next;
}

void GatherCall::Perform(Next next) {
  if (next.write.has_value()) {
    record_.Sent(next.write->size());
    sending_ = grpc::ByteBuffer(&*next.write, 1);
    StartWrite(&sending_);
  } else if (next.finish) {
    absl::Status end;
    {
      const absl::MutexLock lock(&mu_);
      end = !answer_->ok() || !broken_ ? *answer_ : absl::CancelledError("the caller is gone");
    }
    Finish(record_.Finish(end));
  }
}

void GatherCall::OnWriteDone(bool ok) {
  sending_.Clear();  // the buffer goes back to the pool as soon as gRPC is done with it
  Next next;
  {
    const absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) broken_ = true;
    next = NextAction();
  }
  Perform(std::move(next));
}

ScatterCall::ScatterCall(ServiceContext& shared, grpc::CallbackServerContext* context,
                         grpc::ByteBuffer* response)
    : shared_(shared),
      context_(context),
      response_(response),
      record_(shared, "Scatter", context->client_metadata()),
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
    return Submit(*std::move(command), std::move(logged_));
  }
  record_.Received(request_.Length());
  if (const absl::Status added = Add(); !added.ok()) return Refuse(added);
  StartRead(&request_);
}

absl::Status ScatterCall::Add() {
  // The message stays; an eighth for what is noted about its rows.
  const auto bytes = static_cast<int64_t>(request_.Length());
  RETURN_IF_ERROR(record_.TakeBulk(bytes + bytes / 8));
  const std::shared_ptr<const MessageSlices> message = TakeSlices(request_);
  if (shared_.log_commands) wire::AddScatterMessage(message->pieces, message, &logged_);
  return assembler_.Add(message->pieces, message);
}

void ScatterCall::Refuse(const absl::Status& refusal) {
  if (!assembler_.has_envelope() || !absl::IsInvalidArgument(refusal)) {
    shared_.metrics->RecordRefusal(refusal);
    return End(refusal);
  }
  const RefusedCommand refused{.envelope = assembler_.envelope(), .refusal = refusal};
  Submit(refused, wire::LogRefused(refused));
}

void ScatterCall::Submit(Command command, wire::LoggedCommand logged) {
  Sequencer::Request queued;
  queued.command = std::move(command);
  record_.Of(OperationOf(queued.command));
  queued.logged = std::move(logged);
  queued.bytes = kQueuedBytes;
  queued.admit = AdmitCommand(shared_, context_, PeerOf(shared_, *context_), queued.command);
  queued.patience = RemainingTime(*context_, absl::InfiniteDuration());
  queued.done = [this](const Answer& answer) {
    if (const auto* reply = std::get_if<ScatterReply>(&answer.reply->body)) {
      v1::ScatterResponse response;
      response.set_generation(answer.generation);
      response.set_applied_steps(reply->applied_steps);
      const grpc::Slice bytes(response.SerializeAsString());
      *response_ = grpc::ByteBuffer(&bytes, 1);
      record_.Sent(bytes.size());
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
