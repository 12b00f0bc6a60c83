#include "client/trainer/evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/trainer/step_pipeline.h"
#include "core/base/status_macros.h"
#include "core/engine/model/top_k.h"

namespace dslide {
namespace {

constexpr int64_t kRecallDepth = 10;

std::vector<Prediction> PredictionsOf(const TopKReply& best) {
  const size_t samples = best.scored.rows.size() / static_cast<size_t>(best.k);
  std::vector<Prediction> predictions(samples);
  for (size_t s = 0; s < samples; ++s) {
    predictions[s].exact = best.scored.exact && !best.given;
    // Shards of earlier versions say only the sum.
    predictions[s].scored_rows = best.scored.by_query.empty()
                                     ? best.scored.scored_rows / static_cast<int64_t>(samples)
                                     : best.scored.by_query[s];
  }
  for (size_t i = 0; i < best.scored.rows.size(); ++i) {
    if (best.scored.rows[i] == kNoRow) continue;
    Prediction& prediction = predictions[i / static_cast<size_t>(best.k)];
    prediction.labels.push_back(best.scored.rows[i]);
    prediction.logits.push_back(best.scored.logits[i]);
  }
  return predictions;
}

}  // namespace

Evaluator::Evaluator(const Network& network, const BatchPreparer& preparer,
                     std::vector<StepChannel*> shards, TopKScorer top_k, EvaluatorOptions options)
    : network_(network),
      preparer_(preparer),
      shards_(std::move(shards)),
      top_k_(std::move(top_k)),
      options_(options) {
  if (options.recall > 0) tuner_.emplace(options.recall, network.head().rows);
}

Evaluator::AskedHidden Evaluator::AskHidden(PreparedBatch batch, int64_t step) const {
  AskedHidden asked;
  asked.samples = batch.samples();
  for (size_t s = 0; s < shards_.size(); ++s) {
    asked.sums.push_back(shards_[s]->Send(step, step, std::move(batch.inputs[s])));
  }
  for (const TableSpec& table : network_.dense()) {
    for (StepChannel* shard : shards_) {
      asked.gathers.push_back(
          shard->Send(step, step, DenseGatherOp{table.name, IsAveraged(table)}));
    }
  }
  return asked;
}

absl::StatusOr<std::vector<float>> Evaluator::TakeHidden(const AskedHidden& asked) const {
  const int64_t samples = asked.samples;
  const absl::Span<const TableSpec> dense = network_.dense();
  std::vector<MatrixReply> partials;
  std::vector<const MatrixReply*> partial_views;
  for (const auto& pending : asked.sums) {
    ASSIGN_OR_RETURN(ReplyBody body, pending->Take());
    auto* reply = std::get_if<EmbedForwardReply>(&body);
    if (reply == nullptr) return absl::InternalError("a shard answered another operation");
    partials.push_back(std::move(reply->partial));
  }
  for (const MatrixReply& partial : partials) partial_views.push_back(&partial);
  ASSIGN_OR_RETURN(std::vector<float> hidden,
                   AddPartials(partial_views, samples, network_.embedding().dim));
  const bool bf16 = network_.spec().activations == ActivationType::kBf16;
  Activate({}, 0, network_.embedding().dim, bf16 && dense.empty(), options_.parallelism, hidden);
  for (size_t layer = 0; layer < dense.size(); ++layer) {
    std::vector<ReplyBody> bodies;
    std::vector<const RowBlock*> blocks;
    for (size_t s = 0; s < shards_.size(); ++s) {
      ASSIGN_OR_RETURN(ReplyBody body, asked.gathers[layer * shards_.size() + s]->Take());
      bodies.push_back(std::move(body));
    }
    for (const ReplyBody& body : bodies) {
      const auto* reply = std::get_if<DenseGatherReply>(&body);
      if (reply == nullptr) return absl::InternalError("a shard answered another operation");
      blocks.push_back(&reply->rows);
    }
    ASSIGN_OR_RETURN(const DenseLayer joined, JoinDenseLayer(dense[layer], blocks));
    hidden = DenseForward(joined, hidden, samples, options_.parallelism);
    Activate({}, 0, joined.out, bf16 && layer + 1 == dense.size(), options_.parallelism, hidden);
  }
  return hidden;
}

absl::StatusOr<std::vector<Prediction>> Evaluator::Predict(PreparedBatch batch, int64_t k,
                                                           bool hashed, int64_t step) {
  ExplicitRows<RowId> candidates = std::move(batch.candidates);
  ASSIGN_OR_RETURN(std::vector<float> hidden, TakeHidden(AskHidden(std::move(batch), step)));
  if (candidates.empty()) return Score(std::move(hidden), k, hashed);
  ASSIGN_OR_RETURN(const TopKReply best, ScoreGiven(std::move(hidden), std::move(candidates), k));
  return PredictionsOf(best);
}

absl::StatusOr<TopKReply> Evaluator::ScoreGiven(std::vector<float> hidden,
                                                ExplicitRows<RowId> candidates, int64_t k) const {
  TopKCommand query;
  query.model = network_.spec().name;
  query.table = network_.head().name;
  query.dim = network_.head().dim;
  query.batch = static_cast<int64_t>(hidden.size()) / query.dim;
  query.k = k;
  query.hidden = std::move(hidden);
  query.candidates = std::move(candidates);
  return top_k_(query);
}

absl::StatusOr<std::vector<float>> Evaluator::ScoreCandidates(
    const AskedHidden& asked, const ExplicitRows<RowId>& candidates) const {
  std::vector<float> logits(candidates.rows.size());
  int64_t most = 1;
  for (size_t s = 0; s + 1 < candidates.offsets.size(); ++s) {
    most = std::max<int64_t>(most, candidates.offsets[s + 1] - candidates.offsets[s]);
  }
  ASSIGN_OR_RETURN(std::vector<float> hidden, TakeHidden(asked));
  ASSIGN_OR_RETURN(const TopKReply ranked, ScoreGiven(std::move(hidden), candidates, most));
  for (size_t s = 0; s + 1 < candidates.offsets.size(); ++s) {
    const auto first = candidates.rows.begin() + candidates.offsets[s];
    const auto end = candidates.rows.begin() + candidates.offsets[s + 1];
    for (size_t i = s * static_cast<size_t>(ranked.k);
         i < (s + 1) * static_cast<size_t>(ranked.k) && ranked.scored.rows[i] != kNoRow; ++i) {
      const auto place = std::lower_bound(first, end, ranked.scored.rows[i]);
      if (place == end || *place != ranked.scored.rows[i]) {
        return absl::InternalError("a shard ranked a row that was not asked for");
      }
      logits[static_cast<size_t>(place - candidates.rows.begin())] = ranked.scored.logits[i];
    }
  }
  return logits;
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
  const bool tuned = query.hashed && tuner_.has_value();
  ASSIGN_OR_RETURN(const TopKReply best,
                   tuned ? tuner_->TopK(std::move(query), top_k_) : top_k_(query));
  return PredictionsOf(best);
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
    ASSIGN_OR_RETURN(const std::vector<float> hidden,
                     TakeHidden(AskHidden(std::move(batch), (*next_step)++)));
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
    const Dataset& data, absl::Span<const int64_t> points, BatchUse use, RankingMetrics metrics,
    int64_t* next_step, const std::function<void(int64_t)>& progress) {
  return MeasureRanking(
      data, points, options_.batch_size, std::move(metrics),
      [&](SparseBatch samples, absl::Span<const int64_t> part,
          int64_t k) -> absl::StatusOr<std::vector<Prediction>> {
        ASSIGN_OR_RETURN(PreparedBatch batch,
                         preparer_.PrepareSamples(std::move(samples), use, 0, part));
        return Predict(std::move(batch), k, /*hashed=*/false, (*next_step)++);
      },
      progress);
}

}  // namespace dslide
