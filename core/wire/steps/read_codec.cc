#include "core/wire/steps/read_codec.h"

#include <utility>
#include <variant>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/envelope_codec.h"

namespace dslide::wire {
namespace {

bool OnlyReads(const StepOp& op) {
  return std::holds_alternative<EmbedForwardOp>(op) || std::holds_alternative<DenseGatherOp>(op) ||
         std::holds_alternative<GetRecordOp>(op) || std::holds_alternative<FindNeighboursOp>(op) ||
         std::holds_alternative<ScoreRowsOp>(op);
}

}  // namespace

absl::StatusOr<ReadCommand> DecodeReadRequest(const v1::ReadRequest& request) {
  ReadCommand command;
  RETURN_IF_ERROR(CheckName("model", request.model()));
  command.model = request.model();
  command.topology_version = request.topology_version();
  ASSIGN_OR_RETURN(command.op, DecodeStepOperation(request.operation()));
  if (OnlyReads(command.op)) return command;
  return Refusal(reason::kBadEnum, "operation",
                 "changes the model: Read runs embed_forward, dense_gather, get_record, "
                 "find_neighbours and score_rows; others belong to a Step stream");
}

void EncodeReadRequest(const ReadCommand& command, StepFormat format, v1::ReadRequest* out) {
  out->set_model(command.model);
  out->set_topology_version(command.topology_version);
  EncodeStepOperation(command.op, format, out->mutable_operation());
}

void EncodeReadResponse(const Reply& reply, ActivationType type, v1::ReadResponse* out) {
  EncodeStepResponse(/*sequence=*/0, /*generation=*/0, reply, type, out->mutable_result());
}

absl::StatusOr<ReplyBody> DecodeReadResponse(const v1::ReadResponse& response) {
  ASSIGN_OR_RETURN(StepAnswer answer, DecodeStepResponse(response.result()));
  RETURN_IF_ERROR(answer.reply.status);
  return std::move(answer.reply.body);
}

}  // namespace dslide::wire
