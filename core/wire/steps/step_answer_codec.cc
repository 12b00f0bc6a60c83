#include "core/wire/steps/step_answer_codec.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/arrays/matrix_codec.h"
#include "core/wire/durations.h"
#include "core/wire/row_codec.h"
#include "core/wire/status_details.h"
#include "core/wire/steps/component_codec.h"

namespace dslide::wire {
namespace {

constexpr int64_t kMaxRecallRows = 10;

// --- Answers, to the wire

void EncodeRecall(const RecallTop& top, v1::RecallProbe* out) {
  out->set_sample(top.sample);
  EncodeRowIds(top.rows, out->mutable_row_ids());
  EncodeFloats(top.logits, out->mutable_logits());
  out->mutable_found()->assign(top.found.begin(), top.found.end());
}

struct ResultEncoder {
  ActivationType type;
  v1::StepResponse* out;

  void operator()(const EmbedForwardReply& reply) const {
    const MatrixReply& m = reply.partial;
    EncodeMatrix(m.rows, m.cols, m.data, {.type = type, .sparse = m.sparse},
                 out->mutable_embed_forward()->mutable_partial());
  }
  void operator()(const HeadForwardReply& reply) const {
    const HeadForwardOutput& output = reply.output;
    v1::HeadForwardResult* result = out->mutable_head_forward();
    EncodeFloats(output.max_logits, result->mutable_max_logits());
    EncodeFloats(output.exp_sums, result->mutable_exp_sums());
    EncodeFloats(output.label_logits, result->mutable_label_logits());
    result->set_active_pairs(output.active_pairs);
    result->set_distinct_rows(output.distinct_rows);
    for (const RecallTop& top : output.recall) EncodeRecall(top, result->add_recall_probes());
  }
  void operator()(const HeadBackwardReply& reply) const {
    const MatrixReply& m = reply.hidden_gradient;
    EncodeMatrix(m.rows, m.cols, m.data, {.type = type, .sparse = m.sparse},
                 out->mutable_head_backward()->mutable_hidden_gradient());
    out->mutable_head_backward()->set_rejected_rows(reply.rejected_rows);
  }
  void operator()(const EmbedBackwardReply& reply) const {
    out->mutable_embed_backward()->set_distinct_rows(reply.distinct_rows);
    out->mutable_embed_backward()->set_rejected_rows(reply.rejected_rows);
  }
  void operator()(const DenseGatherReply& reply) const {
    EncodeRowBlock(reply.rows, ActivationType::kF32, out->mutable_dense_gather()->mutable_rows());
  }
  void operator()(const DenseScatterReply&) const { out->mutable_dense_scatter(); }
  template <typename Other>
  void operator()(const Other& reply) const {
    if (EncodeComponentResult(reply, out)) return;
    // A reply of a command that has messages of its own.
    EncodeStepError(absl::InternalError("the reply belongs to no step operation"),
                    out->mutable_error());
  }
};

// --- Answers, from the wire

absl::StatusOr<ReplyBody> DecodeHeadForward(const v1::HeadForwardResult& result) {
  HeadForwardOutput output;
  ASSIGN_OR_RETURN(output.max_logits,
                   DecodeFloats("max_logits", result.max_logits(), {1, kMaxBatch}, Floats::kAny));
  const Count batch = Count::Exactly(static_cast<int64_t>(output.max_logits.size()));
  ASSIGN_OR_RETURN(output.exp_sums,
                   DecodeFloats("exp_sums", result.exp_sums(), batch, Floats::kAny));
  ASSIGN_OR_RETURN(output.label_logits,
                   DecodeFloats("label_logits", result.label_logits(),
                                Count::AtMost(kMaxMessageNumbers), Floats::kAny));
  output.active_pairs = result.active_pairs();
  output.distinct_rows = result.distinct_rows();
  for (const v1::RecallProbe& probe : result.recall_probes()) {
    RecallTop top;
    top.sample = probe.sample();
    ASSIGN_OR_RETURN(top.rows, DecodeRowIds("recall_probes.row_ids", probe.row_ids(),
                                            Count::AtMost(kMaxRecallRows)));
    const auto n = static_cast<int64_t>(top.rows.size());
    ASSIGN_OR_RETURN(top.logits, DecodeFloats("recall_probes.logits", probe.logits(),
                                              Count::Exactly(n), Floats::kAny));
    if (static_cast<int64_t>(probe.found().size()) != n || top.sample >= batch.low) {
      return Refusal(reason::kBadSize, "recall_probes", "contradict themselves");
    }
    top.found.assign(probe.found().begin(), probe.found().end());
    output.recall.push_back(std::move(top));
  }
  return HeadForwardReply{.output = std::move(output)};
}

absl::StatusOr<ReplyBody> DecodeResult(const v1::StepResponse& response) {
  constexpr Count kAnyBatch = {1, kMaxBatch};
  constexpr Count kAnyDim = {1, kMaxMatrixSide};
  switch (response.result_case()) {
    case v1::StepResponse::kEmbedForward: {
      EmbedForwardReply reply;
      ASSIGN_OR_RETURN(reply.partial, DecodeMatrix("partial", response.embed_forward().partial(),
                                                   kAnyBatch, kAnyDim, Floats::kAny));
      return reply;
    }
    case v1::StepResponse::kHeadForward:
      return DecodeHeadForward(response.head_forward());
    case v1::StepResponse::kHeadBackward: {
      HeadBackwardReply reply;
      ASSIGN_OR_RETURN(reply.hidden_gradient,
                       DecodeMatrix("hidden_gradient", response.head_backward().hidden_gradient(),
                                    kAnyBatch, kAnyDim, Floats::kAny));
      reply.rejected_rows = response.head_backward().rejected_rows();
      return reply;
    }
    case v1::StepResponse::kEmbedBackward:
      return EmbedBackwardReply{.distinct_rows = response.embed_backward().distinct_rows(),
                                .rejected_rows = response.embed_backward().rejected_rows()};
    case v1::StepResponse::kDenseGather: {
      DenseGatherReply reply;
      ASSIGN_OR_RETURN(reply.rows, DecodeRowBlock("rows", response.dense_gather().rows(),
                                                  kMaxMatrixSide, Floats::kAny));
      return reply;
    }
    case v1::StepResponse::kDenseScatter:
      return DenseScatterReply{};
    default:
      return DecodeComponentResult(response);
  }
}

}  // namespace

void EncodeStepResponse(uint64_t sequence, uint64_t generation, const Reply& reply,
                        ActivationType type, v1::StepResponse* out) {
  out->set_sequence(sequence);
  out->set_generation(generation);
  if (!reply.status.ok()) return EncodeStepError(reply.status, out->mutable_error());
  std::visit(ResultEncoder{.type = type, .out = out}, reply.body);
}

absl::StatusOr<StepAnswer> DecodeStepResponse(const v1::StepResponse& response) {
  StepAnswer answer;
  answer.sequence = response.sequence();
  answer.generation = response.generation();
  if (response.has_error()) {
    answer.reply.status = DecodeStepError(response.error());
    return answer;
  }
  absl::StatusOr<ReplyBody> body = DecodeResult(response);
  if (!body.ok()) return BadAnswer(body.status());
  answer.reply.body = *std::move(body);
  return answer;
}

void EncodeStepError(const absl::Status& status, v1::StepError* out) {
  out->set_code(static_cast<int32_t>(status.code()));
  out->set_message(ErrorMessageForWire(status.message()));
  out->set_reason(ReasonOf(status));
  if (const int64_t pause = RetryAfterMs(status); pause > 0) {
    EncodeDuration(std::min(absl::Milliseconds(pause), absl::Hours(1)), out->mutable_retry_after());
  }
}

absl::Status DecodeStepError(const v1::StepError& error) {
  absl::StatusCode code = static_cast<absl::StatusCode>(error.code());
  if (error.code() < 1 || error.code() > 16) code = absl::StatusCode::kUnknown;
  absl::Status status = error.reason().empty()
                            ? absl::Status(code, error.message())
                            : StatusWithReason(code, error.reason(), error.message());
  const absl::Duration pause = DecodeDuration(error.retry_after());
  if (pause > absl::ZeroDuration()) SetRetryAfterMs(status, absl::ToInt64Milliseconds(pause));
  return status;
}

}  // namespace dslide::wire
