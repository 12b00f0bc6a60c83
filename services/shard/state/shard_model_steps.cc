// The operations of a training step.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/bit_rows.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/model/tail_sample.h"
#include "services/shard/state/refusal.h"
#include "services/shard/state/sample_rows.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {
namespace {

absl::Status CheckDim(const ShardTable& table, int64_t dim) {
  if (dim == table.spec.dim) return absl::OkStatus();
  return Refuse(reason::kWrongDim, absl::StrCat("the request has ", dim, " columns, table \"",
                                                table.spec.name, "\" has ", table.spec.dim));
}

// Leaves the sums that are wanted. wanted: [rows, BytesOfBits(cols)].
void KeepWanted(absl::Span<const uint8_t> wanted, MatrixReply& sums) {
  const int64_t stride = BytesOfBits(sums.cols);
  for (int64_t row = 0; row < sums.rows; ++row) {
    const uint8_t* const bits = wanted.data() + row * stride;
    float* const mine = sums.data.data() + row * sums.cols;
    for (int64_t c = 0; c < sums.cols; ++c) {
      mine[c] = BitAt(bits, c) ? mine[c] : 0.0f;
    }
  }
  sums.sparse = true;
}

// What a rectifier passes on: 0 where it gave 0. hidden: [rows, cols].
void Rectify(absl::Span<const float> hidden, MatrixReply& gradient) {
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (hidden[i] == 0.0f) gradient.data[i] = 0.0f;
  }
  gradient.sparse = true;
}

absl::Status CheckBatch(int64_t batch, int64_t expected, absl::string_view field) {
  if (batch == expected) return absl::OkStatus();
  return Refuse(reason::kWrongBatch,
                absl::StrCat(field, " has ", batch, " samples, the step's forward had ", expected));
}

}  // namespace

absl::StatusOr<EmbedForwardReply> ShardModel::EmbedForward(EmbedForwardOp op,
                                                           FeatureBatch& features) {
  ASSIGN_OR_RETURN(const ShardTable* const table, FindRole(op.table, TableRole::kEmbedding));
  RETURN_IF_ERROR(CheckOffsets(op.offsets, op.rows.size(), "sample_offsets"));
  RETURN_IF_ERROR(CheckAscending(op.offsets, op.rows, "row_ids"));
  if (op.values.size() != op.rows.size()) {
    return Refuse(reason::kBadSize, absl::StrCat("the request has ", op.values.size(),
                                                 " values for ", op.rows.size(), " rows"));
  }
  const int64_t batch = static_cast<int64_t>(op.offsets.size()) - 1;
  RETURN_IF_ERROR(CheckStepReply(batch, table->spec.dim));
  RETURN_IF_ERROR(CheckMagnitude("values", op.values));
  const int64_t wanted_bytes = batch * BytesOfBits(table->spec.dim);
  if (!op.wanted.empty() && static_cast<int64_t>(op.wanted.size()) != wanted_bytes) {
    return Refuse(reason::kBadSize,
                  absl::StrCat("wanted has ", op.wanted.size(), " bytes for ", batch,
                               " samples, must have ", wanted_bytes, " or none"));
  }
  ASSIGN_OR_RETURN(features.rows, ToLocal(*table, op.rows));
  const std::vector<uint32_t> origin = SortInSamples(op.offsets, features.rows);
  features.values = InOrderOf(origin, op.values);
  features.offsets = std::move(op.offsets);
  EmbedForwardReply reply;
  reply.partial.rows = batch;
  reply.partial.cols = table->spec.dim;
  reply.partial.data.resize(batch * table->spec.dim);
  const ScopedStage stage(stages_, Stage::kEmbedForward);
  table->embedding->Forward(features, op.averaged, parallelism_,
                            absl::MakeSpan(reply.partial.data));
  if (!op.wanted.empty()) KeepWanted(op.wanted, reply.partial);
  return reply;
}

absl::StatusOr<EmbedBackwardReply> ShardModel::EmbedBackward(const EmbedBackwardOp& op,
                                                             const FeatureBatch& features) {
  ASSIGN_OR_RETURN(ShardTable* const table, FindRole(op.table, TableRole::kEmbedding));
  RETURN_IF_ERROR(CheckDim(*table, op.dim));
  RETURN_IF_ERROR(
      CheckBatch(static_cast<int64_t>(op.gradient.size()) / op.dim, features.batch(), "gradient"));
  RETURN_IF_ERROR(CheckMagnitude("gradient", op.gradient));
  RETURN_IF_ERROR(CheckRate(table->spec, op.learning_rate));
  const ScopedStage stage(stages_, Stage::kEmbedUpdate);
  EmbedBackwardReply reply;
  reply.distinct_rows = table->embedding->Backward(features, op.gradient, bound_, parallelism_,
                                                   &reply.rejected_rows, op.learning_rate);
  counters_.rejected_rows += reply.rejected_rows;
  counters_.embed_distinct_rows += reply.distinct_rows;
  CountUpdate(*table);
  return reply;
}

absl::Status ShardModel::CheckHeadForward(const ShardTable& table, const HeadForwardOp& op,
                                          int64_t batch) const {
  RETURN_IF_ERROR(CheckDim(table, op.dim));
  RETURN_IF_ERROR(CheckOffsets(op.label_offsets, op.labels.size(), "label_offsets"));
  RETURN_IF_ERROR(CheckAscending(op.label_offsets, op.labels, "label_ids"));
  if (static_cast<int64_t>(op.hidden.size()) != batch * op.dim ||
      static_cast<int64_t>(op.label_targets.size()) != batch) {
    return Refuse(reason::kBadSize,
                  absl::StrCat("hidden has ", op.hidden.size(), " and label_targets ",
                               op.label_targets.size(), " elements for ", batch, " samples"));
  }
  if (!op.label_weights.empty() &&
      (op.label_weights.size() != op.labels.size() || table.spec.head.loss != HeadLoss::kSoftmax)) {
    return Refuse(reason::kBadSize,
                  absl::StrCat("label_weights has ", op.label_weights.size(), " elements for ",
                               op.labels.size(),
                               " labels, must have one each, and the loss must be softmax"));
  }
  for (const uint32_t sample : op.recall_samples) {
    if (sample >= batch) {
      return Refuse(reason::kOutOfRange, "recall_samples must be positions in the batch");
    }
  }
  RETURN_IF_ERROR(CheckStepReply(batch, op.dim));
  RETURN_IF_ERROR(CheckMagnitude("hidden", op.hidden));
  return CheckMagnitude("label_targets", op.label_targets);
}

absl::StatusOr<HeadForwardReply> ShardModel::HeadForward(HeadForwardOp op, int64_t step,
                                                         HeadContext& context) {
  ASSIGN_OR_RETURN(ShardTable* const table, FindRole(op.table, TableRole::kHead));
  const int64_t batch = static_cast<int64_t>(op.label_offsets.size()) - 1;
  RETURN_IF_ERROR(CheckHeadForward(*table, op, batch));
  // A client that names rows need not have any looked up.
  if (op.explicit_rows.empty() || !op.fingerprints.empty()) {
    RETURN_IF_ERROR(table->CheckFingerprints(op.fingerprints, batch));
  }
  HeadBatch head_batch;
  ASSIGN_OR_RETURN(head_batch.explicit_rows,
                   ToLocal(*table, std::move(op.explicit_rows), batch, "explicit"));
  ASSIGN_OR_RETURN(head_batch.labels, ToLocal(*table, op.labels));
  const std::vector<uint32_t> origin = SortInSamples(op.label_offsets, head_batch.labels);
  head_batch.hidden = std::move(op.hidden);
  head_batch.fingerprints = std::move(op.fingerprints);
  head_batch.label_offsets = std::move(op.label_offsets);
  head_batch.label_targets = std::move(op.label_targets);
  head_batch.label_weights = InOrderOf(origin, op.label_weights);
  head_batch.recall_samples = std::move(op.recall_samples);

  // Nothing of the client's: its id is random, and equal seeds give equal bits.
  const uint64_t tail_key =
      TailKey(spec_.seed, step, static_cast<uint64_t>(table - tables_.data()));
  HeadForwardReply reply;
  HeadForwardOutput& output = reply.output;
  table->head->Forward(std::move(head_batch), tail_key, parallelism_, context, output);
  // Back into the order of the request.
  std::vector<float> label_logits(origin.size());
  for (size_t i = 0; i < origin.size(); ++i) label_logits[origin[i]] = output.label_logits[i];
  output.label_logits = std::move(label_logits);
  counters_.active_pairs += output.active_pairs;
  counters_.head_samples += batch;
  counters_.head_distinct_rows += output.distinct_rows;
  for (const RecallTop& top : output.recall) {
    if (top.found.empty()) continue;
    counters_.recall_top1_found += top.found[0];
    counters_.recall_top1_wanted += 1;
    counters_.recall_top10_found += std::count(top.found.begin(), top.found.end(), 1);
    counters_.recall_top10_wanted += static_cast<int64_t>(top.found.size());
  }
  return reply;
}

absl::StatusOr<HeadBackwardReply> ShardModel::HeadBackward(const HeadBackwardOp& op,
                                                           const HeadContext& context) {
  ASSIGN_OR_RETURN(ShardTable* const table, FindRole(op.table, TableRole::kHead));
  const int64_t batch = context.batch.batch();
  const auto partitions = static_cast<int64_t>(op.log_partitions.size());
  const bool sigmoid = table->spec.head.loss == HeadLoss::kSigmoid;
  if (!sigmoid || partitions != 0) {
    RETURN_IF_ERROR(CheckBatch(partitions, batch, "log_partitions"));
  }
  // Sums of logits are not bounded by the model's bound, but must be numbers.
  constexpr float kLargest = 1e30f;
  if (!AllWithin(op.log_partitions.data(), partitions, kLargest)) {
    return Refuse(reason::kNotFinite, "log_partitions must be finite");
  }
  if (!(op.scale > 0.0f && op.scale <= 1.0f)) {
    return Refuse(reason::kOutOfRange, absl::StrCat("scale is ", op.scale, ", must be in (0, 1]"));
  }
  RETURN_IF_ERROR(CheckRate(table->spec, op.learning_rate));
  HeadBackwardReply reply;
  reply.hidden_gradient.rows = batch;
  reply.hidden_gradient.cols = table->spec.dim;
  reply.hidden_gradient.data.resize(batch * table->spec.dim);
  reply.rejected_rows =
      table->head->Backward(context, op.log_partitions, op.scale, bound_, parallelism_,
                            absl::MakeSpan(reply.hidden_gradient.data), op.learning_rate);
  if (op.rectified) Rectify(context.batch.hidden, reply.hidden_gradient);
  counters_.rejected_rows += reply.rejected_rows;
  CountUpdate(*table);
  return reply;
}

absl::StatusOr<DenseGatherReply> ShardModel::DenseGather(const DenseGatherOp& op) const {
  ASSIGN_OR_RETURN(const ShardTable* const table, FindRole(op.table, TableRole::kDense));
  const ShardRows& held = table->store().rows();
  std::vector<RowId> rows;
  rows.reserve(held.num_rows());
  for (int64_t i = 0; i < held.num_rows(); ++i) {
    rows.push_back(held.ToGlobal(LocalRow(static_cast<uint32_t>(i))));
  }
  std::sort(rows.begin(), rows.end());
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(*table, rows));
  return DenseGatherReply{.rows = ReadRows(table->Reader(op.averaged), std::move(rows), locals)};
}

absl::StatusOr<DenseScatterReply> ShardModel::DenseScatter(const DenseScatterOp& op) {
  ASSIGN_OR_RETURN(ShardTable* const table, FindRole(op.table, TableRole::kDense));
  RETURN_IF_ERROR(CheckRows(*table, op.gradients));
  RETURN_IF_ERROR(CheckRate(table->spec, op.learning_rate));
  if (static_cast<int64_t>(op.gradients.rows.size()) != table->store().num_rows()) {
    return Refuse(
        reason::kWrongRows,
        absl::StrCat("the request has ", op.gradients.rows.size(), " rows, table \"", op.table,
                     "\" has ", table->store().num_rows(), " on this shard: send them all"));
  }
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(*table, op.gradients.rows));
  ApplyGradients(*table, op.gradients, op.learning_rate, locals);
  return DenseScatterReply{};
}

}  // namespace dslide::shard
