#include "services/shard/rpc/unary_call_service.h"

#include <utility>
#include <variant>

#include "core/wire/row_codec.h"
#include "core/wire/steps/read_codec.h"
#include "services/common/unary.h"

namespace dslide::shard {

absl::Duration ShardServiceImpl::Unary::patience() const {
  return RemainingTime(*context_, absl::InfiniteDuration());
}

std::function<absl::Status()> ShardServiceImpl::Unary::Admit(const Command& command) {
  return AdmitCommand(shared(), context_, PeerOf(shared(), *context_), command);
}

void SubmitCommand(ShardCall* call, absl::StatusOr<Command> command, QueuedCommand how,
                   std::function<size_t(const Answer&)> encode) {
  ServiceContext& shared = call->shared();
  if (!command.ok()) {
    shared.metrics->RecordRefusal(command.status());
    return call->End(command.status());
  }
  Sequencer::Request queued;
  queued.command = *std::move(command);
  call->record().Of(OperationOf(queued.command));
  queued.logged = std::move(how.logged);
  queued.bytes = how.bytes;
  queued.control = how.control;
  queued.run_here = call->run_here();
  queued.admit = call->Admit(queued.command);
  queued.patience = call->patience();
  queued.done = [call, encode = std::move(encode)](const Answer& answer) {
    if (answer.reply->status.ok()) call->record().Sent(encode(answer));
    call->End(answer.reply->status);
  };
  if (const absl::Status submitted = shared.sequencer->Submit(std::move(queued)); !submitted.ok()) {
    shared.metrics->RecordRefusal(submitted);
    call->End(submitted);
  }
}

void SubmitRead(ShardCall* call, const v1::ReadRequest& request, v1::ReadResponse* response) {
  SubmitCommand(call, wire::DecodeReadRequest(request),
                {.bytes = 2 * static_cast<int64_t>(request.ByteSizeLong())},
                [response](const Answer& answer) {
                  wire::EncodeReadResponse(*answer.reply, answer.activations, response);
                  return response->ByteSizeLong();
                });
}

void SubmitTopK(ShardCall* call, const v1::TopKRequest& request, v1::TopKResponse* response) {
  SubmitCommand(call, wire::DecodeTopKRequest(request),
                {.bytes = 2 * static_cast<int64_t>(request.ByteSizeLong())},
                [response](const Answer& answer) {
                  wire::EncodeTopKResponse(std::get<TopKReply>(answer.reply->body), response);
                  return response->ByteSizeLong();
                });
}

}  // namespace dslide::shard
