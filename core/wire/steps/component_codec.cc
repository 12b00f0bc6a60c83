#include "core/wire/steps/component_codec.h"

#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/arrays/sample_ids.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/stored_rows_codec.h"

namespace dslide::wire {
namespace {

absl::Status CheckBatch(absl::string_view field, int64_t batch) {
  if (batch >= 1 && batch <= kMaxBatch) return absl::OkStatus();
  return Refusal(reason::kOutOfRange, field,
                 absl::StrCat("is ", batch, ", must be in [1, ", kMaxBatch, "]"));
}

absl::StatusOr<SampleIds> DecodePackedIds(absl::string_view message, absl::string_view field,
                                          const std::string& packed, int64_t batch) {
  const std::string none;
  return DecodeSampleIds({.message = message,
                          .offsets_name = field,
                          .ids_name = field,
                          .packed_name = field,
                          .offsets = none,
                          .ids = none,
                          .packed = packed},
                         batch, kMaxMessageNumbers);
}

absl::StatusOr<SparseInputs> DecodeInputs(absl::string_view message, const v1::SparseInputs& wire) {
  const int64_t batch = wire.batch();
  RETURN_IF_ERROR(CheckBatch(absl::StrCat(message, ".batch"), batch));
  ASSIGN_OR_RETURN(SampleIds ids, DecodePackedIds(message, "packed_feature_ids",
                                                  wire.packed_feature_ids(), batch));
  SparseInputs inputs;
  inputs.offsets = std::move(ids.offsets);
  inputs.features = std::move(ids.rows);
  ASSIGN_OR_RETURN(
      inputs.values,
      DecodeFloats(absl::StrCat(message, ".values"), wire.values(),
                   Count::Exactly(static_cast<int64_t>(inputs.features.size())), Floats::kBounded));
  return inputs;
}

void EncodeInputs(const SparseInputs& inputs, v1::SparseInputs* out) {
  out->set_batch(static_cast<uint32_t>(inputs.batch()));
  EncodePackedIds(inputs.offsets, inputs.features, out->mutable_packed_feature_ids());
  EncodeFloats(inputs.values, out->mutable_values());
}

absl::Status CheckAscending(absl::string_view field, absl::Span<const uint32_t> numbers) {
  for (size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] > numbers[i - 1]) continue;
    return Refusal(reason::kNotAscending, field,
                   absl::StrCat("has ", numbers[i], " behind ", numbers[i - 1], " at position ", i,
                                ": sort them, each once"));
  }
  return absl::OkStatus();
}

// Nothing but what is to expire.
absl::Status CheckNoPoints(const v1::AppendPoints& request) {
  const v1::SparseInputs& inputs = request.inputs();
  if (request.numbers().empty() && request.times().empty() && request.packed_label_ids().empty() &&
      inputs.packed_feature_ids().empty() && inputs.values().empty()) {
    return absl::OkStatus();
  }
  return Refusal(reason::kOutOfRange, "append_points.inputs.batch",
                 "is 0, and there are fields of points: it must say how many points there are");
}

absl::StatusOr<StepOp> DecodeOp(const v1::AppendPoints& request) {
  AppendPointsOp op;
  RETURN_IF_ERROR(CheckName("append_points.table", request.table()));
  op.table = request.table();
  op.expire_before = request.expire_before();
  if (request.inputs().batch() == 0) {
    RETURN_IF_ERROR(CheckNoPoints(request));
    op.inputs.offsets = {0};
    op.label_offsets = {0};
    return op;
  }
  ASSIGN_OR_RETURN(op.inputs, DecodeInputs("append_points.inputs", request.inputs()));
  const int64_t batch = op.inputs.batch();
  ASSIGN_OR_RETURN(op.numbers,
                   DecodeU32s("append_points.numbers", request.numbers(), Count::Exactly(batch)));
  RETURN_IF_ERROR(CheckAscending("append_points.numbers", op.numbers));
  if (!request.times().empty()) {
    ASSIGN_OR_RETURN(op.times,
                     DecodeU32s("append_points.times", request.times(), Count::Exactly(batch)));
  }
  ASSIGN_OR_RETURN(SampleIds labels, DecodePackedIds("append_points", "packed_label_ids",
                                                     request.packed_label_ids(), batch));
  op.label_offsets = std::move(labels.offsets);
  op.labels = std::move(labels.rows);
  return op;
}

absl::StatusOr<StepOp> DecodeOp(const v1::PutRecord& request) {
  RETURN_IF_ERROR(CheckName("put_record.table", request.table()));
  const auto bytes = static_cast<int64_t>(request.record().size());
  if (bytes < 1 || bytes > kMaxRecordBytes) {
    return Refusal(reason::kBadSize, "put_record.record",
                   absl::StrCat("has ", bytes, " bytes, must have [1, ", kMaxRecordBytes, "]"));
  }
  return PutRecordOp{
      .table = request.table(), .row = RowId(request.row()), .record = request.record()};
}

absl::StatusOr<StepOp> DecodeOp(const v1::GetRecord& request) {
  RETURN_IF_ERROR(CheckName("get_record.table", request.table()));
  return GetRecordOp{.table = request.table(), .row = RowId(request.row())};
}

absl::StatusOr<StepOp> DecodeOp(const v1::SolveRows& request) {
  RETURN_IF_ERROR(CheckName("solve_rows.table", request.table()));
  return SolveRowsOp{.table = request.table(),
                     .tree = request.tree(),
                     .level = request.level(),
                     .first = request.first(),
                     .count = request.count(),
                     .count_points = request.count_points()};
}

absl::StatusOr<StepOp> DecodeOp(const v1::FindNeighbours& request) {
  FindNeighboursOp op;
  RETURN_IF_ERROR(CheckName("find_neighbours.table", request.table()));
  op.table = request.table();
  ASSIGN_OR_RETURN(op.inputs, DecodeInputs("find_neighbours.inputs", request.inputs()));
  op.k = request.k();
  if (op.k < 1 || op.k > kMaxNeighbours) {
    return Refusal(reason::kOutOfRange, "find_neighbours.k",
                   absl::StrCat("is ", op.k, ", must be in [1, ", kMaxNeighbours, "]"));
  }
  if (!request.left_out().empty()) {
    ASSIGN_OR_RETURN(op.left_out, DecodeU32s("find_neighbours.left_out", request.left_out(),
                                             Count::Exactly(op.inputs.batch())));
  }
  op.known_points = request.known_points();
  return op;
}

absl::StatusOr<StepOp> DecodeOp(const v1::ScoreRows& request) {
  ScoreRowsOp op;
  RETURN_IF_ERROR(CheckName("score_rows.table", request.table()));
  op.table = request.table();
  ASSIGN_OR_RETURN(op.inputs, DecodeInputs("score_rows.inputs", request.inputs()));
  ASSIGN_OR_RETURN(SampleIds rows, DecodePackedIds("score_rows", "packed_row_ids",
                                                   request.packed_row_ids(), op.inputs.batch()));
  op.row_offsets = std::move(rows.offsets);
  op.rows = std::move(rows.rows);
  return op;
}

absl::StatusOr<StepOp> DecodeOp(const v1::LoadRows& request) {
  RETURN_IF_ERROR(CheckName("load_rows.table", request.table()));
  LoadRowsOp op = {.table = request.table(),
                   .block = {},
                   .applied_steps = request.applied_steps(),
                   .finish = request.finish()};
  // A row's last step has 32 bits.
  if (op.applied_steps < 0 || op.applied_steps > std::numeric_limits<uint32_t>::max()) {
    return Refusal(reason::kOutOfRange, "load_rows.applied_steps",
                   absl::StrCat("is ", op.applied_steps, ", must be in [0, ",
                                std::numeric_limits<uint32_t>::max(), "]"));
  }
  ASSIGN_OR_RETURN(op.block,
                   DecodeStoredRows("load_rows.rows", request.rows(), /*sizes_only=*/false));
  return op;
}

absl::StatusOr<ReplyBody> DecodeFound(const v1::FindNeighboursResult& result) {
  FindNeighboursReply reply;
  ASSIGN_OR_RETURN(reply.counts, DecodeU32s("counts", result.counts(), {1, kMaxBatch}));
  const int64_t total = std::accumulate(reply.counts.begin(), reply.counts.end(), int64_t{0});
  ASSIGN_OR_RETURN(reply.points,
                   DecodeRowIds("point_ids", result.point_ids(), Count::Exactly(total)));
  ASSIGN_OR_RETURN(reply.similarities, DecodeFloats("similarities", result.similarities(),
                                                    Count::Exactly(total), Floats::kBounded));
  reply.labels_left_out = result.labels_left_out();
  if (reply.labels_left_out && !result.packed_label_ids().empty()) {
    return Refusal(reason::kBadSize, "packed_label_ids",
                   "is there although labels_left_out is set");
  }
  if (total == 0 || reply.labels_left_out) {
    reply.label_offsets = {0};
    return reply;
  }
  ASSIGN_OR_RETURN(SampleIds labels, DecodePackedIds("find_neighbours", "packed_label_ids",
                                                     result.packed_label_ids(), total));
  reply.label_offsets = std::move(labels.offsets);
  reply.labels = std::move(labels.rows);
  return reply;
}

}  // namespace

absl::StatusOr<StepOp> DecodeComponentOperation(const v1::StepRequest& request) {
  switch (request.operation_case()) {
    case v1::StepRequest::kAppendPoints:
      return DecodeOp(request.append_points());
    case v1::StepRequest::kPutRecord:
      return DecodeOp(request.put_record());
    case v1::StepRequest::kGetRecord:
      return DecodeOp(request.get_record());
    case v1::StepRequest::kSolveRows:
      return DecodeOp(request.solve_rows());
    case v1::StepRequest::kFindNeighbours:
      return DecodeOp(request.find_neighbours());
    case v1::StepRequest::kScoreRows:
      return DecodeOp(request.score_rows());
    case v1::StepRequest::kLoadRows:
      return DecodeOp(request.load_rows());
    default:
      return Refusal(reason::kMissingField, "operation", "must be one that this version knows");
  }
}

void EncodeComponentOperation(const AppendPointsOp& op, v1::StepRequest* out) {
  v1::AppendPoints* const request = out->mutable_append_points();
  request->set_table(op.table);
  EncodeU32s(op.numbers, request->mutable_numbers());
  EncodeInputs(op.inputs, request->mutable_inputs());
  EncodePackedIds(op.label_offsets, op.labels, request->mutable_packed_label_ids());
  EncodeU32s(op.times, request->mutable_times());
  request->set_expire_before(op.expire_before);
}

void EncodeComponentOperation(const PutRecordOp& op, v1::StepRequest* out) {
  v1::PutRecord* const request = out->mutable_put_record();
  request->set_table(op.table);
  request->set_row(op.row.value());
  request->set_record(op.record);
}

void EncodeComponentOperation(const GetRecordOp& op, v1::StepRequest* out) {
  out->mutable_get_record()->set_table(op.table);
  out->mutable_get_record()->set_row(op.row.value());
}

void EncodeComponentOperation(const SolveRowsOp& op, v1::StepRequest* out) {
  v1::SolveRows* const request = out->mutable_solve_rows();
  request->set_table(op.table);
  request->set_tree(static_cast<int32_t>(op.tree));
  request->set_level(static_cast<uint32_t>(op.level));
  request->set_first(static_cast<uint32_t>(op.first));
  request->set_count(static_cast<uint32_t>(op.count));
  request->set_count_points(op.count_points);
}

void EncodeComponentOperation(const FindNeighboursOp& op, v1::StepRequest* out) {
  v1::FindNeighbours* const request = out->mutable_find_neighbours();
  request->set_table(op.table);
  EncodeInputs(op.inputs, request->mutable_inputs());
  request->set_k(static_cast<uint32_t>(op.k));
  EncodeU32s(op.left_out, request->mutable_left_out());
  request->set_known_points(static_cast<uint32_t>(op.known_points));
}

void EncodeComponentOperation(const ScoreRowsOp& op, v1::StepRequest* out) {
  v1::ScoreRows* const request = out->mutable_score_rows();
  request->set_table(op.table);
  EncodeInputs(op.inputs, request->mutable_inputs());
  EncodePackedIds(op.row_offsets, op.rows, request->mutable_packed_row_ids());
}

void EncodeComponentOperation(const LoadRowsOp& op, v1::StepRequest* out) {
  v1::LoadRows* const request = out->mutable_load_rows();
  request->set_table(op.table);
  EncodeStoredRows(op.block, request->mutable_rows());
  request->set_applied_steps(op.applied_steps);
  request->set_finish(op.finish);
}

bool EncodeComponentResult(const AppendPointsReply& reply, v1::StepResponse* out) {
  out->mutable_append_points()->set_points(reply.points);
  out->mutable_append_points()->set_next(reply.next);
  return true;
}

bool EncodeComponentResult(const PutRecordReply&, v1::StepResponse* out) {
  out->mutable_put_record();
  return true;
}

bool EncodeComponentResult(const GetRecordReply& reply, v1::StepResponse* out) {
  out->mutable_get_record()->set_record(reply.record);
  return true;
}

bool EncodeComponentResult(const SolveRowsReply& reply, v1::StepResponse* out) {
  out->mutable_solve_rows()->set_rows(reply.rows);
  out->mutable_solve_rows()->set_entries(reply.entries);
  EncodeU32s(reply.label_points, out->mutable_solve_rows()->mutable_label_points());
  return true;
}

bool EncodeComponentResult(const FindNeighboursReply& reply, v1::StepResponse* out) {
  v1::FindNeighboursResult* const result = out->mutable_find_neighbours();
  EncodeU32s(reply.counts, result->mutable_counts());
  EncodeRowIds(reply.points, result->mutable_point_ids());
  EncodeFloats(reply.similarities, result->mutable_similarities());
  result->set_labels_left_out(reply.labels_left_out);
  if (!reply.labels_left_out) {
    EncodePackedIds(reply.label_offsets, reply.labels, result->mutable_packed_label_ids());
  }
  return true;
}

bool EncodeComponentResult(const ScoreRowsReply& reply, v1::StepResponse* out) {
  EncodeFloats(reply.scores, out->mutable_score_rows()->mutable_scores());
  return true;
}

bool EncodeComponentResult(const LoadRowsReply&, v1::StepResponse* out) {
  out->mutable_load_rows();
  return true;
}

absl::StatusOr<ReplyBody> DecodeComponentResult(const v1::StepResponse& response) {
  switch (response.result_case()) {
    case v1::StepResponse::kAppendPoints:
      return AppendPointsReply{.points = response.append_points().points(),
                               .next = response.append_points().next()};
    case v1::StepResponse::kPutRecord:
      return PutRecordReply{};
    case v1::StepResponse::kGetRecord:
      return GetRecordReply{.record = response.get_record().record()};
    case v1::StepResponse::kSolveRows: {
      const v1::SolveRowsResult& result = response.solve_rows();
      SolveRowsReply reply{.rows = result.rows(), .entries = result.entries(), .label_points = {}};
      ASSIGN_OR_RETURN(reply.label_points, DecodeU32s("label_points", result.label_points(),
                                                      Count::AtMost(kMaxMessageNumbers)));
      return reply;
    }
    case v1::StepResponse::kFindNeighbours:
      return DecodeFound(response.find_neighbours());
    case v1::StepResponse::kScoreRows: {
      ScoreRowsReply reply;
      ASSIGN_OR_RETURN(reply.scores,
                       DecodeFloats("scores", response.score_rows().scores(),
                                    Count::AtMost(kMaxMessageNumbers), Floats::kBounded));
      return reply;
    }
    case v1::StepResponse::kLoadRows:
      return LoadRowsReply{};
    default:
      return Refusal(reason::kMissingField, "result", "is not one that this version knows");
  }
}

}  // namespace dslide::wire
