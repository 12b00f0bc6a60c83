#include "core/wire/steps/step_codec.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/explicit_rows_codec.h"
#include "core/wire/arrays/matrix_codec.h"
#include "core/wire/arrays/sample_ids.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/component_codec.h"

namespace dslide::wire {
namespace {

constexpr int64_t kMaxHashTables = 256;  // see HashSpec

// --- From the wire

absl::StatusOr<StepOp> Decode(const v1::EmbedForward& request) {
  EmbedForwardOp op;
  RETURN_IF_ERROR(CheckName("embed_forward.table", request.table()));
  op.table = request.table();
  op.averaged = request.averaged();
  op.wanted.assign(request.wanted().begin(), request.wanted().end());
  const int64_t batch = request.batch();
  if (batch < 1 || batch > kMaxBatch) {
    return Refusal(reason::kOutOfRange, "embed_forward.batch",
                   absl::StrCat("is ", batch, ", must be in [1, ", kMaxBatch, "]"));
  }
  ASSIGN_OR_RETURN(SampleIds ids, DecodeSampleIds({.message = "embed_forward",
                                                   .offsets_name = "sample_offsets",
                                                   .ids_name = "row_ids",
                                                   .packed_name = "packed_row_ids",
                                                   .offsets = request.sample_offsets(),
                                                   .ids = request.row_ids(),
                                                   .packed = request.packed_row_ids()},
                                                  batch, kMaxMessageNumbers));
  op.offsets = std::move(ids.offsets);
  op.rows = std::move(ids.rows);
  const auto total = static_cast<int64_t>(op.rows.size());
  if (request.values().empty()) {
    op.values.assign(total, 1.0f);
  } else {
    ASSIGN_OR_RETURN(op.values, DecodeFloats("embed_forward.values", request.values(),
                                             Count::Exactly(total), Floats::kBounded));
  }
  return op;
}

absl::Status CheckTargets(absl::Span<const float> targets) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0.0f || targets[i] > 1.0f) {
      return Refusal(reason::kOutOfRange, "head_forward.label_targets",
                     absl::StrCat("has ", targets[i], " at position ", i, ", must be in [0, 1]"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> DecodeLabelWeights(const std::string& bytes, size_t labels) {
  if (bytes.empty()) return std::vector<float>();
  constexpr absl::string_view kField = "head_forward.label_weights";
  ASSIGN_OR_RETURN(
      std::vector<float> weights,
      DecodeFloats(kField, bytes, Count::Exactly(static_cast<int64_t>(labels)), Floats::kBounded));
  for (const float weight : weights) {
    if (weight >= 0.0f && weight <= kMaxExplicitWeight) continue;
    return Refusal(reason::kOutOfRange, kField,
                   absl::StrCat("has ", weight, ", must be in [0, 2^32]"));
  }
  return weights;
}

// [batch, tables], in whichever width they came.
absl::StatusOr<std::vector<uint32_t>> DecodeStepFingerprints(const v1::HeadForward& request,
                                                             int64_t batch) {
  const bool is_short = !request.short_fingerprints().empty();
  const absl::string_view field =
      is_short ? "head_forward.short_fingerprints" : "head_forward.fingerprints";
  if (is_short && !request.fingerprints().empty()) {
    return Refusal(reason::kBadSize, field, "is there beside fingerprints: use one width");
  }
  const Count count = Count::AtMost(std::min(kMaxMessageNumbers, batch * kMaxHashTables));
  ASSIGN_OR_RETURN(std::vector<uint32_t> fingerprints,
                   is_short ? DecodeU16s(field, request.short_fingerprints(), count)
                            : DecodeU32s(field, request.fingerprints(), count));
  if (static_cast<int64_t>(fingerprints.size()) % batch == 0) return fingerprints;
  return Refusal(reason::kBadSize, field,
                 absl::StrCat("has ", fingerprints.size(), " elements for ", batch,
                              " samples, must have the same number for each"));
}

absl::StatusOr<StepOp> Decode(const v1::HeadForward& request) {
  HeadForwardOp op;
  RETURN_IF_ERROR(CheckName("head_forward.table", request.table()));
  op.table = request.table();
  ASSIGN_OR_RETURN(MatrixReply hidden,
                   DecodeMatrix("head_forward.hidden", request.hidden(), {1, kMaxBatch},
                                {1, kMaxMatrixSide}, Floats::kBounded));
  const int64_t batch = hidden.rows;
  op.dim = hidden.cols;
  op.hidden = std::move(hidden.data);
  ASSIGN_OR_RETURN(op.fingerprints, DecodeStepFingerprints(request, batch));
  ASSIGN_OR_RETURN(SampleIds labels, DecodeSampleIds({.message = "head_forward",
                                                      .offsets_name = "label_offsets",
                                                      .ids_name = "label_ids",
                                                      .packed_name = "packed_label_ids",
                                                      .offsets = request.label_offsets(),
                                                      .ids = request.label_ids(),
                                                      .packed = request.packed_label_ids()},
                                                     batch, kMaxMessageNumbers));
  op.label_offsets = std::move(labels.offsets);
  op.labels = std::move(labels.rows);
  ASSIGN_OR_RETURN(op.label_targets,
                   DecodeFloats("head_forward.label_targets", request.label_targets(),
                                Count::Exactly(batch), Floats::kBounded));
  RETURN_IF_ERROR(CheckTargets(op.label_targets));
  ASSIGN_OR_RETURN(op.label_weights, DecodeLabelWeights(request.label_weights(), op.labels.size()));
  if (request.recall_samples_size() > kMaxRecallSamples) {
    return Refusal(reason::kOverLimit, "head_forward.recall_samples",
                   absl::StrCat("has ", request.recall_samples_size(), " elements, may have ",
                                kMaxRecallSamples));
  }
  for (const uint32_t sample : request.recall_samples()) {
    if (sample >= batch) {
      return Refusal(reason::kOutOfRange, "head_forward.recall_samples",
                     absl::StrCat("has position ", sample, ", must be below the batch of ", batch));
    }
    op.recall_samples.push_back(sample);
  }
  ASSIGN_OR_RETURN(op.explicit_rows,
                   DecodeExplicitRows({.message = "head_forward",
                                       .ids_name = "packed_explicit_ids",
                                       .logit_offsets_name = "explicit_logit_offsets",
                                       .weights_name = "explicit_weights",
                                       .ids = request.packed_explicit_ids(),
                                       .logit_offsets = request.explicit_logit_offsets(),
                                       .weights = request.explicit_weights()},
                                      batch));
  return op;
}

absl::StatusOr<StepOp> Decode(const v1::HeadBackward& request) {
  HeadBackwardOp op;
  RETURN_IF_ERROR(CheckName("head_backward.table", request.table()));
  op.table = request.table();
  ASSIGN_OR_RETURN(op.log_partitions,
                   DecodeFloats("head_backward.log_partitions", request.log_partitions(),
                                Count::AtMost(kMaxBatch), Floats::kBounded));
  op.scale = request.scale();
  if (!(op.scale > 0.0f && op.scale <= 1.0f)) {
    return Refusal(reason::kOutOfRange, "head_backward.scale",
                   absl::StrCat("is ", op.scale, ", must be in (0, 1]"));
  }
  if (request.has_learning_rate()) op.learning_rate = request.learning_rate();
  op.rectified = request.rectified();
  return op;
}

absl::StatusOr<StepOp> Decode(const v1::EmbedBackward& request) {
  EmbedBackwardOp op;
  RETURN_IF_ERROR(CheckName("embed_backward.table", request.table()));
  op.table = request.table();
  ASSIGN_OR_RETURN(MatrixReply gradient,
                   DecodeMatrix("embed_backward.gradient", request.gradient(), {1, kMaxBatch},
                                {1, kMaxMatrixSide}, Floats::kBounded));
  op.dim = gradient.cols;
  op.gradient = std::move(gradient.data);
  if (request.has_learning_rate()) op.learning_rate = request.learning_rate();
  return op;
}

absl::StatusOr<StepOp> Decode(const v1::DenseGather& request) {
  RETURN_IF_ERROR(CheckName("dense_gather.table", request.table()));
  return DenseGatherOp{.table = request.table(), .averaged = request.averaged()};
}

absl::StatusOr<StepOp> Decode(const v1::DenseScatter& request) {
  DenseScatterOp op;
  RETURN_IF_ERROR(CheckName("dense_scatter.table", request.table()));
  op.table = request.table();
  ASSIGN_OR_RETURN(op.gradients, DecodeRowBlock("dense_scatter.gradients", request.gradients(),
                                                kMaxMatrixSide, Floats::kBounded));
  if (request.has_learning_rate()) op.learning_rate = request.learning_rate();
  return op;
}

absl::StatusOr<StepOp> DecodeOperation(const v1::StepRequest& request) {
  switch (request.operation_case()) {
    case v1::StepRequest::kEmbedForward:
      return Decode(request.embed_forward());
    case v1::StepRequest::kHeadForward:
      return Decode(request.head_forward());
    case v1::StepRequest::kHeadBackward:
      return Decode(request.head_backward());
    case v1::StepRequest::kEmbedBackward:
      return Decode(request.embed_backward());
    case v1::StepRequest::kDenseGather:
      return Decode(request.dense_gather());
    case v1::StepRequest::kDenseScatter:
      return Decode(request.dense_scatter());
    case v1::StepRequest::OPERATION_NOT_SET:
      break;
    default:
      return DecodeComponentOperation(request);
  }
  return Refusal(reason::kMissingField, "operation", "must be one that this version knows");
}

// --- To the wire

constexpr uint32_t kShortLimit = 1 << 16;

bool FitInSixteenBits(absl::Span<const uint32_t> values) {
  return std::all_of(values.begin(), values.end(),
                     [](uint32_t value) { return value < kShortLimit; });
}

struct OperationEncoder {
  StepFormat format;
  v1::StepRequest* out;

  void operator()(const EmbedForwardOp& op) const {
    v1::EmbedForward* request = out->mutable_embed_forward();
    request->set_table(op.table);
    request->set_batch(static_cast<uint32_t>(op.offsets.size() - 1));
    request->set_averaged(op.averaged);
    request->mutable_wanted()->assign(op.wanted.begin(), op.wanted.end());
    if (format.packed) {
      EncodePackedIds(op.offsets, op.rows, request->mutable_packed_row_ids());
    } else {
      EncodeU32s(op.offsets, request->mutable_sample_offsets());
      EncodeRowIds(op.rows, request->mutable_row_ids());
    }
    const bool all_one =
        std::all_of(op.values.begin(), op.values.end(), [](float value) { return value == 1.0f; });
    if (!all_one) EncodeFloats(op.values, request->mutable_values());
  }
  void operator()(const HeadForwardOp& op) const {
    v1::HeadForward* request = out->mutable_head_forward();
    request->set_table(op.table);
    Encode(static_cast<int64_t>(op.label_offsets.size()) - 1, op.dim, op.hidden,
           request->mutable_hidden());
    if (format.packed && FitInSixteenBits(op.fingerprints)) {
      EncodeU16s(op.fingerprints, request->mutable_short_fingerprints());
    } else {
      EncodeU32s(op.fingerprints, request->mutable_fingerprints());
    }
    if (format.packed) {
      EncodePackedIds(op.label_offsets, op.labels, request->mutable_packed_label_ids());
    } else {
      EncodeU32s(op.label_offsets, request->mutable_label_offsets());
      EncodeRowIds(op.labels, request->mutable_label_ids());
    }
    EncodeFloats(op.label_targets, request->mutable_label_targets());
    EncodeFloats(op.label_weights, request->mutable_label_weights());
    request->mutable_recall_samples()->Assign(op.recall_samples.begin(), op.recall_samples.end());
    EncodeExplicitRows(op.explicit_rows, format.activations,
                       {.ids = request->mutable_packed_explicit_ids(),
                        .logit_offsets = request->mutable_explicit_logit_offsets(),
                        .weights = request->mutable_explicit_weights()});
  }
  void operator()(const HeadBackwardOp& op) const {
    v1::HeadBackward* request = out->mutable_head_backward();
    request->set_table(op.table);
    EncodeFloats(op.log_partitions, request->mutable_log_partitions());
    request->set_scale(op.scale);
    request->set_rectified(op.rectified);
    if (op.learning_rate.has_value()) request->set_learning_rate(*op.learning_rate);
  }
  void operator()(const EmbedBackwardOp& op) const {
    v1::EmbedBackward* request = out->mutable_embed_backward();
    request->set_table(op.table);
    const int64_t batch = op.dim == 0 ? 0 : static_cast<int64_t>(op.gradient.size()) / op.dim;
    Encode(batch, op.dim, op.gradient, request->mutable_gradient());
    if (op.learning_rate.has_value()) request->set_learning_rate(*op.learning_rate);
  }
  void operator()(const DenseGatherOp& op) const {
    out->mutable_dense_gather()->set_table(op.table);
    out->mutable_dense_gather()->set_averaged(op.averaged);
  }
  void operator()(const DenseScatterOp& op) const {
    v1::DenseScatter* request = out->mutable_dense_scatter();
    request->set_table(op.table);
    EncodeRowBlock(op.gradients, ActivationType::kF32, request->mutable_gradients());
    if (op.learning_rate.has_value()) request->set_learning_rate(*op.learning_rate);
  }
  template <typename Other>
  void operator()(const Other& op) const {
    EncodeComponentOperation(op, out);
  }

  void Encode(int64_t batch, int64_t dim, absl::Span<const float> data, v1::Matrix* matrix) const {
    EncodeMatrix(batch, dim, data, {.type = format.activations, .sparse = format.sparse}, matrix);
  }
};

}  // namespace

absl::StatusOr<StepOp> DecodeStepOperation(const v1::StepRequest& request) {
  return DecodeOperation(request);
}

void EncodeStepOperation(const StepOp& op, StepFormat format, v1::StepRequest* out) {
  std::visit(OperationEncoder{.format = format, .out = out}, op);
}

absl::StatusOr<StepCommand> DecodeStep(const v1::StepRequest& request, Envelope envelope) {
  StepCommand command;
  command.envelope = std::move(envelope);
  command.step = request.step();
  command.first_open_step = request.first_open_step();
  if (command.first_open_step < 0 || command.step < 1 || command.step < command.first_open_step) {
    return Refusal(
        reason::kBadStep, "step",
        absl::StrCat("is ", command.step, " with first_open_step ", command.first_open_step,
                     ", must be 1 <= step and 0 <= first_open_step <= step"));
  }
  ASSIGN_OR_RETURN(command.op, DecodeOperation(request));
  return command;
}

void EncodeStepRequest(const StepCommand& command, StepFormat format, v1::StepRequest* out) {
  EncodeEnvelope(command.envelope, out->mutable_envelope());
  out->set_step(command.step);
  out->set_first_open_step(command.first_open_step);
  EncodeStepOperation(command.op, format, out);
}

}  // namespace dslide::wire
