// The step operations on tables of records: memory, label trees, linear rows, fusion; and that on
// records of any table.

#pragma once

#include "absl/status/statusor.h"
#include "core/protocol/commands.h"
#include "core/protocol/replies.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// Largest record that is put or got as a whole.
inline constexpr int64_t kMaxRecordBytes = int64_t{1} << 20;
// Neighbours of one query.
inline constexpr int64_t kMaxNeighbours = 1000;

// As DecodeStep() and DecodeStepResponse() of step_codec.h, which call these.
absl::StatusOr<StepOp> DecodeComponentOperation(const v1::StepRequest& request);
absl::StatusOr<ReplyBody> DecodeComponentResult(const v1::StepResponse& response);

void EncodeComponentOperation(const AppendPointsOp& op, v1::StepRequest* out);
void EncodeComponentOperation(const PutRecordOp& op, v1::StepRequest* out);
void EncodeComponentOperation(const GetRecordOp& op, v1::StepRequest* out);
void EncodeComponentOperation(const SolveRowsOp& op, v1::StepRequest* out);
void EncodeComponentOperation(const FindNeighboursOp& op, v1::StepRequest* out);
void EncodeComponentOperation(const ScoreRowsOp& op, v1::StepRequest* out);
void EncodeComponentOperation(const LoadRowsOp& op, v1::StepRequest* out);

bool EncodeComponentResult(const AppendPointsReply& reply, v1::StepResponse* out);
bool EncodeComponentResult(const PutRecordReply& reply, v1::StepResponse* out);
bool EncodeComponentResult(const GetRecordReply& reply, v1::StepResponse* out);
bool EncodeComponentResult(const SolveRowsReply& reply, v1::StepResponse* out);
bool EncodeComponentResult(const FindNeighboursReply& reply, v1::StepResponse* out);
bool EncodeComponentResult(const ScoreRowsReply& reply, v1::StepResponse* out);
bool EncodeComponentResult(const LoadRowsReply& reply, v1::StepResponse* out);
// Any other: false.
template <typename Other>
bool EncodeComponentResult(const Other&, v1::StepResponse*) {
  return false;
}

}  // namespace dslide::wire
