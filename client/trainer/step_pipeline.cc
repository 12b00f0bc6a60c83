#include "client/trainer/step_pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/optim/optimizer.h"
#include "core/protocol/reason_words.h"

namespace dslide {
namespace {

constexpr uint64_t kRecallStream = 0x72636c;

// `count` different positions of a batch, a pure function of (seed, step).
std::vector<uint32_t> RecallSamples(uint64_t seed, int64_t step, int64_t count, int64_t batch) {
  count = std::min({count, batch, int64_t{16}});
  const uint64_t first = CounterBits(DeriveKey(seed, kRecallStream), static_cast<uint64_t>(step));
  std::vector<uint32_t> samples;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t shift = static_cast<uint64_t>(i * batch / count);
    samples.push_back(static_cast<uint32_t>((first + shift) % static_cast<uint64_t>(batch)));
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

absl::Status InContext(const absl::Status& status, size_t shard, int64_t step,
                       const char* exchange) {
  const std::string message =
      absl::StrCat("shard ", shard, ", ", exchange, " of step ", step, ": ", status.message());
  const std::string reason = ReasonOf(status);
  return reason.empty() ? absl::Status(status.code(), message)
                        : StatusWithReason(status.code(), reason, message);
}

// A step most of whose updates are left out learns nothing, however often it is repeated.
absl::Status CheckApplied(const FinishedStep& step, int64_t updated_rows) {
  if (step.rejected_rows == 0 || 2 * step.rejected_rows < updated_rows) return absl::OkStatus();
  return StatusWithReason(
      absl::StatusCode::kInvalidArgument, reason::kOverMagnitude,
      absl::StrCat("step ", step.step, ": the updates of ", step.rejected_rows, " of ",
                   updated_rows, " rows were left out, for they go beyond the model's ",
                   "magnitude_bound: lower the learning rate"));
}

// The part of type T of every shard's answer, where operation `position` went to all shards.
template <typename T>
absl::StatusOr<std::vector<const T*>> PartsOf(absl::Span<const ReplyBody> answers, size_t shards,
                                              size_t position) {
  std::vector<const T*> parts;
  for (size_t s = 0; s < shards; ++s) {
    const T* part = std::get_if<T>(&answers[position * shards + s]);
    if (part == nullptr) {
      return absl::InternalError(
          absl::StrCat("shard ", s, " answered with a result of another operation"));
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

struct StepPipeline::InFlight {
  int64_t step = 0;
  Stage stage = Stage::kEmbedForward;
  int64_t exchange = 0;  // number of the exchange under way
  PreparedBatch batch;
  std::vector<uint8_t> kept;  // units of the embedding; as KeptUnits()
  // Of the exchange, in the order of sending.
  struct Sent {
    size_t shard;
    std::shared_ptr<PendingStep> answer;
  };
  std::vector<Sent> pending;
  std::vector<DenseLayer> dense;
  std::vector<std::vector<RowId>> dense_rows;   // [layer * shards + shard]: who holds which rows
  std::vector<std::vector<float>> activations;  // [layer + 1]: h of the embedding, of each dense
  FinishedStep result;
};

absl::StatusOr<std::vector<float>> AddPartials(absl::Span<const MatrixReply* const> parts,
                                               int64_t batch, int64_t width) {
  std::vector<float> sum(static_cast<size_t>(batch * width));
  for (size_t s = 0; s < parts.size(); ++s) {
    const MatrixReply& part = *parts[s];
    if (part.rows != batch || part.cols != width || part.data.size() != sum.size()) {
      return absl::InternalError(absl::StrCat("shard ", s, " answered [", part.rows, ", ",
                                              part.cols, "], expected [", batch, ", ", width, "]"));
    }
    AddTo(part.data.data(), sum.data(), batch * width);
  }
  return sum;
}

StepPipeline::StepPipeline(const Network& network, std::vector<StepChannel*> shards,
                           PipelineOptions options, int64_t* next_step, const Clock& clock,
                           std::function<void(const FinishedStep&)> on_finished)
    : network_(network),
      shards_(std::move(shards)),
      options_(options),
      head_(ResolvedHead(network.head())),
      clock_(clock),
      on_finished_(std::move(on_finished)),
      next_step_(next_step) {}

StepPipeline::~StepPipeline() = default;

absl::Status StepPipeline::Submit(PreparedBatch batch) {
  if (batch.samples() == 0) return absl::OkStatus();
  while (static_cast<int64_t>(under_way_.size()) >= options_.in_flight_steps) {
    RETURN_IF_ERROR(AdvanceOldest());
  }
  Start(std::move(batch));
  return absl::OkStatus();
}

absl::Status StepPipeline::Drain() {
  while (!under_way_.empty()) RETURN_IF_ERROR(AdvanceOldest());
  return CollectFinished(next_exchange_);
}

int64_t StepPipeline::FirstOpenStep(const InFlight& step) const {
  int64_t first = step.step;
  for (const auto& other : under_way_) first = std::min(first, other->step);
  return first;
}

void StepPipeline::SendTo(InFlight& step, size_t shard, StepOp op) {
  step.pending.push_back(
      {shard, shards_[shard]->Send(step.step, FirstOpenStep(step), std::move(op))});
}

HiddenDropout StepPipeline::DropoutOf(const InFlight& step) const {
  return {network_.spec().training.hidden_dropout, options_.seed, step.batch.epoch,
          step.batch.points};
}

void StepPipeline::Start(PreparedBatch batch) {
  auto step = std::make_unique<InFlight>();
  step->step = (*next_step_)++;
  step->batch = std::move(batch);
  step->result.step = step->step;
  step->result.lease = step->batch.lease;
  step->result.epoch = step->batch.epoch;
  step->result.samples = step->batch.samples();
  step->exchange = next_exchange_++;
  step->kept = KeptUnits(DropoutOf(*step), 0, network_.embedding().dim, options_.parallelism);
  for (size_t s = 0; s < shards_.size(); ++s) {
    step->batch.inputs[s].wanted = step->kept;
    SendTo(*step, s, std::move(step->batch.inputs[s]));
  }
  for (const TableSpec& table : network_.dense()) {
    for (size_t s = 0; s < shards_.size(); ++s) SendTo(*step, s, DenseGatherOp{table.name});
  }
  under_way_.push_back(std::move(step));
}

absl::StatusOr<StepPipeline::Answers> StepPipeline::Await(InFlight& step, const char* exchange,
                                                          double& seconds) {
  const absl::Duration start = clock_.Now();
  Answers answers;
  answers.reserve(step.pending.size());
  for (const InFlight::Sent& sent : step.pending) {
    absl::StatusOr<ReplyBody> answer = sent.answer->Take();
    if (!answer.ok()) return InContext(answer.status(), sent.shard, step.step, exchange);
    answers.push_back(*std::move(answer));
  }
  step.pending.clear();
  seconds += absl::ToDoubleSeconds(clock_.Now() - start);
  return answers;
}

absl::Status StepPipeline::AdvanceOldest() {
  std::unique_ptr<InFlight> step = std::move(under_way_.front());
  under_way_.pop_front();
  const int64_t answered = step->exchange;
  switch (step->stage) {
    case Stage::kEmbedForward:
      RETURN_IF_ERROR(AfterEmbedForward(*step));
      break;
    case Stage::kHeadForward:
      RETURN_IF_ERROR(AfterHeadForward(*step));
      break;
    case Stage::kHeadBackward:
    case Stage::kEmbedBackward:
      RETURN_IF_ERROR(AfterHeadBackward(*step));
      break;
  }
  if (step->stage == Stage::kEmbedBackward) {
    closing_.push_back(std::move(step));
  } else {
    under_way_.push_back(std::move(step));
  }
  return CollectFinished(answered);
}

absl::Status StepPipeline::CollectFinished(int64_t up_to_exchange) {
  // Answers come in the order of sending, so these are there already, or are the last ones.
  while (!closing_.empty() && closing_.front()->exchange < up_to_exchange) {
    double unused = 0;
    ASSIGN_OR_RETURN(const Answers answers, Await(*closing_.front(), "embed backward", unused));
    FinishedStep result = closing_.front()->result;
    closing_.pop_front();
    int64_t updated = result.distinct_rows;
    for (const ReplyBody& answer : answers) {
      const auto* const embed = std::get_if<EmbedBackwardReply>(&answer);
      if (embed == nullptr) continue;  // of a dense layer
      updated += embed->distinct_rows;
      result.rejected_rows += embed->rejected_rows;
    }
    RETURN_IF_ERROR(CheckApplied(result, updated));
    on_finished_(result);
  }
  return absl::OkStatus();
}

absl::Status StepPipeline::ForwardHidden(InFlight& step, const Answers& answers) {
  const size_t shards = shards_.size();
  const int64_t batch = step.batch.samples();
  const bool bf16 = network_.spec().activations == ActivationType::kBf16;
  const HiddenDropout dropout = DropoutOf(step);
  ASSIGN_OR_RETURN(const auto sums, PartsOf<EmbedForwardReply>(answers, shards, 0));
  std::vector<const MatrixReply*> partials;
  for (const EmbedForwardReply* part : sums) partials.push_back(&part->partial);
  ASSIGN_OR_RETURN(std::vector<float> hidden,
                   AddPartials(partials, batch, network_.embedding().dim));
  const absl::Span<const TableSpec> dense = network_.dense();
  Activate(step.kept, dropout.probability, network_.embedding().dim, bf16 && dense.empty(),
           options_.parallelism, hidden);
  step.activations.push_back(std::move(hidden));
  for (size_t layer = 0; layer < dense.size(); ++layer) {
    ASSIGN_OR_RETURN(const auto parts, PartsOf<DenseGatherReply>(answers, shards, layer + 1));
    std::vector<const RowBlock*> blocks;
    for (const DenseGatherReply* part : parts) {
      blocks.push_back(&part->rows);
      step.dense_rows.push_back(part->rows.rows);
    }
    ASSIGN_OR_RETURN(DenseLayer joined, JoinDenseLayer(dense[layer], blocks));
    std::vector<float> next =
        DenseForward(joined, step.activations.back(), batch, options_.parallelism);
    const std::vector<uint8_t> kept =
        KeptUnits(dropout, static_cast<int64_t>(layer) + 1, joined.out, options_.parallelism);
    Activate(kept, dropout.probability, joined.out, bf16 && layer + 1 == dense.size(),
             options_.parallelism, next);
    step.dense.push_back(std::move(joined));
    step.activations.push_back(std::move(next));
  }
  return absl::OkStatus();
}

void StepPipeline::SendHeadForward(InFlight& step) {
  const int64_t batch = step.batch.samples();
  HeadForwardOp op;
  op.table = network_.head().name;
  op.dim = network_.head().dim;
  op.hidden = step.activations.back();
  op.label_targets = step.batch.label_targets;
  if (const HashFamily* family = network_.hash_family(); family != nullptr) {
    const absl::Duration start = clock_.Now();
    op.fingerprints.resize(static_cast<size_t>(batch * family->num_tables()));
    family->HashQueries(op.hidden, batch, options_.parallelism, absl::MakeSpan(op.fingerprints));
    seconds_.hash += absl::ToDoubleSeconds(clock_.Now() - start);
    if (head_.recall_samples > 0 && step.step % head_.recall_every_steps == 0) {
      op.recall_samples = RecallSamples(options_.seed, step.step, head_.recall_samples, batch);
    }
  }
  step.stage = Stage::kHeadForward;
  step.exchange = next_exchange_++;
  for (size_t s = 0; s < shards_.size(); ++s) {
    HeadForwardOp mine = op;
    mine.label_offsets = step.batch.labels[s].offsets;
    mine.labels = step.batch.labels[s].rows;
    mine.label_weights = step.batch.labels[s].values;
    if (!step.batch.explicit_rows.empty()) {
      mine.explicit_rows = std::move(step.batch.explicit_rows[s]);
    }
    SendTo(step, s, std::move(mine));
  }
}

absl::Status StepPipeline::AfterEmbedForward(InFlight& step) {
  ASSIGN_OR_RETURN(const Answers answers,
                   Await(step, "embed forward", seconds_.wait_embed_forward));
  const absl::Duration start = clock_.Now();
  RETURN_IF_ERROR(ForwardHidden(step, answers));
  SendHeadForward(step);
  seconds_.compute += absl::ToDoubleSeconds(clock_.Now() - start);
  return absl::OkStatus();
}

absl::Status StepPipeline::AfterHeadForward(InFlight& step) {
  ASSIGN_OR_RETURN(const Answers answers, Await(step, "head forward", seconds_.wait_head_forward));
  const absl::Duration start = clock_.Now();
  ASSIGN_OR_RETURN(const auto replies, PartsOf<HeadForwardReply>(answers, shards_.size(), 0));
  std::vector<const HeadForwardOutput*> parts;
  for (const HeadForwardReply* reply : replies) parts.push_back(&reply->output);
  ASSIGN_OR_RETURN(CombinedLoss loss, CombineLoss(network_.head().head.loss, parts,
                                                  step.batch.labels, step.batch.label_targets));
  step.result.loss_sum = loss.loss_sum;
  step.result.recall = CountRecall(parts);
  for (const HeadForwardOutput* part : parts) {
    step.result.active_pairs += part->active_pairs;
    step.result.distinct_rows += part->distinct_rows;
  }
  HeadBackwardOp op;
  op.table = network_.head().name;
  op.log_partitions = std::move(loss.log_partitions);
  op.scale = 1.0f / static_cast<float>(step.batch.samples());
  op.learning_rate = LearningRateAt(network_.head().optimizer, step.batch.job_step);
  op.rectified = true;
  step.stage = Stage::kHeadBackward;
  step.exchange = next_exchange_++;
  for (size_t s = 0; s < shards_.size(); ++s) SendTo(step, s, op);
  seconds_.compute += absl::ToDoubleSeconds(clock_.Now() - start);
  return absl::OkStatus();
}

absl::Status StepPipeline::AfterHeadBackward(InFlight& step) {
  ASSIGN_OR_RETURN(const Answers answers,
                   Await(step, "head backward", seconds_.wait_head_backward));
  const absl::Duration start = clock_.Now();
  const size_t shards = shards_.size();
  const int64_t batch = step.batch.samples();
  const double p = network_.spec().training.hidden_dropout;
  ASSIGN_OR_RETURN(const auto replies, PartsOf<HeadBackwardReply>(answers, shards, 0));
  std::vector<const MatrixReply*> parts;
  for (const HeadBackwardReply* reply : replies) parts.push_back(&reply->hidden_gradient);
  for (const HeadBackwardReply* reply : replies) step.result.rejected_rows += reply->rejected_rows;
  ASSIGN_OR_RETURN(std::vector<float> gradient, AddPartials(parts, batch, network_.head().dim));
  MaskGradient(step.activations.back(), p, gradient);
  step.stage = Stage::kEmbedBackward;
  step.exchange = next_exchange_++;
  for (size_t layer = step.dense.size(); layer-- > 0;) {
    std::vector<float> below;
    const RowBlock all = DenseBackward(step.dense[layer], step.activations[layer], gradient, batch,
                                       options_.parallelism, below);
    MaskGradient(step.activations[layer], p, below);
    for (size_t s = 0; s < shards; ++s) {
      if (step.dense_rows[layer * shards + s].empty()) continue;
      DenseScatterOp op;
      op.table = network_.dense()[layer].name;
      op.learning_rate = LearningRateAt(network_.dense()[layer].optimizer, step.batch.job_step);
      op.gradients.dim = all.dim;
      for (const RowId row : step.dense_rows[layer * shards + s]) {
        const auto begin = all.values.begin() + int64_t{row.value()} * all.dim;
        op.gradients.rows.push_back(row);
        op.gradients.values.insert(op.gradients.values.end(), begin, begin + all.dim);
        op.gradients.biases.push_back(all.biases[row.value()]);
      }
      SendTo(step, s, std::move(op));
    }
    gradient = std::move(below);
  }
  EmbedBackwardOp op;
  op.table = network_.embedding().name;
  op.dim = network_.embedding().dim;
  op.gradient = std::move(gradient);
  op.learning_rate = LearningRateAt(network_.embedding().optimizer, step.batch.job_step);
  for (size_t s = 0; s < shards; ++s) SendTo(step, s, op);
  // What is kept until the last answer is only the result.
  step.batch = PreparedBatch();
  step.kept.clear();
  step.activations.clear();
  step.dense.clear();
  seconds_.compute += absl::ToDoubleSeconds(clock_.Now() - start);
  return absl::OkStatus();
}

}  // namespace dslide
