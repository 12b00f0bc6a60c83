#include "client/trainer/evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/trainer/step_pipeline.h"
#include "core/base/status_macros.h"
#include "core/model/top_k.h"

namespace dslide {
namespace {

constexpr int64_t kRecallDepth = 10;

}  // namespace

Evaluator::Evaluator(const Network& network, const BatchPreparer& preparer,
                     std::vector<StepChannel*> shards, TopKScorer top_k, EvaluatorOptions options)
    : network_(network),
      preparer_(preparer),
      shards_(std::move(shards)),
      top_k_(std::move(top_k)),
      options_(options) {}

absl::StatusOr<std::vector<float>> Evaluator::Hidden(PreparedBatch batch, int64_t step) {
  const int64_t samples = batch.samples();
  const absl::Span<const TableSpec> dense = network_.dense();
  std::vector<std::shared_ptr<PendingStep>> sums;
  std::vector<std::shared_ptr<PendingStep>> gathers;  // [layer * shards + shard]
  for (size_t s = 0; s < shards_.size(); ++s) {
    sums.push_back(shards_[s]->Send(step, step, std::move(batch.inputs[s])));
  }
  for (const TableSpec& table : dense) {
    for (StepChannel* shard : shards_) {
      gathers.push_back(shard->Send(step, step, DenseGatherOp{table.name}));
    }
  }
  std::vector<MatrixReply> partials;
  std::vector<const MatrixReply*> partial_views;
  for (const auto& pending : sums) {
    ASSIGN_OR_RETURN(ReplyBody body, pending->Take());
    auto* reply = std::get_if<EmbedForwardReply>(&body);
    if (reply == nullptr) return absl::InternalError("a shard answered another operation");
    partials.push_back(std::move(reply->partial));
  }
  for (const MatrixReply& partial : partials) partial_views.push_back(&partial);
  ASSIGN_OR_RETURN(std::vector<float> hidden,
                   AddPartials(partial_views, samples, network_.embedding().dim));
  const bool bf16 = network_.spec().activations == ActivationType::kBf16;
  const HiddenDropout no_dropout;
  Activate(no_dropout, 0, network_.embedding().dim, bf16 && dense.empty(), options_.parallelism,
           hidden);
  for (size_t layer = 0; layer < dense.size(); ++layer) {
    std::vector<ReplyBody> bodies;
    std::vector<const RowBlock*> blocks;
    for (size_t s = 0; s < shards_.size(); ++s) {
      ASSIGN_OR_RETURN(ReplyBody body, gathers[layer * shards_.size() + s]->Take());
      bodies.push_back(std::move(body));
    }
    for (const ReplyBody& body : bodies) {
      const auto* reply = std::get_if<DenseGatherReply>(&body);
      if (reply == nullptr) return absl::InternalError("a shard answered another operation");
      blocks.push_back(&reply->rows);
    }
    ASSIGN_OR_RETURN(const DenseLayer joined, JoinDenseLayer(dense[layer], blocks));
    hidden = DenseForward(joined, hidden, samples, options_.parallelism);
    Activate(no_dropout, static_cast<int64_t>(layer) + 1, joined.out,
             bf16 && layer + 1 == dense.size(), options_.parallelism, hidden);
  }
  return hidden;
}

absl::StatusOr<std::vector<Prediction>> Evaluator::Predict(PreparedBatch batch, int64_t k,
                                                           bool hashed, int64_t step) {
  ASSIGN_OR_RETURN(std::vector<float> hidden, Hidden(std::move(batch), step));
  return Score(std::move(hidden), k, hashed);
}

absl::StatusOr<std::vector<Prediction>> Evaluator::Score(std::vector<float> hidden, int64_t k,
                                                         bool hashed) {
  const int64_t samples = static_cast<int64_t>(hidden.size()) / network_.head().dim;
  TopKCommand query;
  query.model = network_.spec().name;
  query.table = network_.head().name;
  query.batch = samples;
  query.dim = network_.head().dim;
  query.k = k;
  query.hidden = std::move(hidden);
  if (const HashFamily* family = network_.hash_family(); hashed && family != nullptr) {
    query.hashed = true;
    query.fingerprints.resize(static_cast<size_t>(samples * family->num_tables()));
    family->HashQueries(query.hidden, samples, options_.parallelism,
                        absl::MakeSpan(query.fingerprints));
  }
  ASSIGN_OR_RETURN(const TopKReply best, top_k_(query));
  std::vector<Prediction> predictions(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples * best.k; ++i) {
    const auto at = static_cast<size_t>(i);
    if (best.scored.rows[at] == kNoRow) continue;
    Prediction& prediction = predictions[static_cast<size_t>(i / best.k)];
    prediction.labels.push_back(best.scored.rows[at]);
    prediction.logits.push_back(best.scored.logits[at]);
  }
  return predictions;
}

absl::StatusOr<RecallCount> Evaluator::MeasureRecall(const Dataset& data,
                                                     absl::Span<const int64_t> points,
                                                     int64_t* next_step) {
  RecallCount count;
  if (network_.hash_family() == nullptr) return count;
  for (size_t first = 0; first < points.size(); first += static_cast<size_t>(options_.batch_size)) {
    const absl::Span<const int64_t> part =
        points.subspan(first, static_cast<size_t>(options_.batch_size));
    ASSIGN_OR_RETURN(PreparedBatch batch, preparer_.Prepare(data, BatchUse::kEvaluation, 0, part));
    ASSIGN_OR_RETURN(const std::vector<float> hidden, Hidden(std::move(batch), (*next_step)++));
    ASSIGN_OR_RETURN(const std::vector<Prediction> exact, Score(hidden, kRecallDepth, false));
    ASSIGN_OR_RETURN(const std::vector<Prediction> hashed, Score(hidden, kRecallDepth, true));
    for (size_t s = 0; s < exact.size(); ++s) {
      const std::vector<RowId>& found = hashed[s].labels;
      ++count.samples;
      for (size_t i = 0; i < exact[s].labels.size(); ++i) {
        const bool hit = std::find(found.begin(), found.end(), exact[s].labels[i]) != found.end();
        if (i == 0) count.top_1_found += hit ? 1 : 0;
        ++count.top_10;
        count.top_10_found += hit ? 1 : 0;
      }
    }
  }
  return count;
}

absl::StatusOr<std::vector<AccuracyAtK>> Evaluator::Evaluate(
    const Dataset& data, absl::Span<const int64_t> points, RankingMetrics metrics,
    int64_t* next_step, const std::function<void(int64_t)>& progress) {
  return MeasureRanking(
      data, points, options_.batch_size, std::move(metrics),
      [&](SparseBatch samples, absl::Span<const int64_t> part,
          int64_t k) -> absl::StatusOr<std::vector<Prediction>> {
        ASSIGN_OR_RETURN(
            PreparedBatch batch,
            preparer_.PrepareSamples(std::move(samples), BatchUse::kEvaluation, 0, part));
        return Predict(std::move(batch), k, /*hashed=*/false, (*next_step)++);
      },
      progress);
}

}  // namespace dslide
