// Accuracy of the model as it is, over a dataset, by exact top-k.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/components/ranking.h"
#include "client/cpp/step_channel.h"
#include "client/trainer/batch_preparer.h"
#include "client/trainer/network.h"
#include "client/trainer/recall_tuner.h"
#include "client/trainer/softmax_combine.h"
#include "core/engine/data/dataset.h"
#include "core/engine/eval/ranking_metrics.h"

namespace dslide {

struct EvaluatorOptions {
  int64_t batch_size = 256;  // [1, 65536]
  Parallelism parallelism;
  // Of the exact labels, what hashed ones have at least; below 1. 0: what training selects.
  double recall = 0;
};

// As many as one request may rank.
inline constexpr int64_t kMaxCandidates = 1024;

// Forward passes without dropout and without updates.
//
// Thread safety: one thread at a time. The channels may belong to a drained StepPipeline; their
// step numbers continue at `next_step`.
class Evaluator {
 public:
  Evaluator(const Network& network, const BatchPreparer& preparer, std::vector<StepChannel*> shards,
            TopKScorer top_k, EvaluatorOptions options);

  // What shards were asked for hidden vectors.
  struct AskedHidden {
    int64_t samples = 0;
    std::vector<std::shared_ptr<PendingStep>> sums = {};     // by shard
    std::vector<std::shared_ptr<PendingStep>> gathers = {};  // [layer * shards + shard]
  };
  // Asks for the hidden vectors of prepared samples, and returns at once.
  AskedHidden AskHidden(PreparedBatch batch, int64_t step) const;
  // The answer, once: [B, head dim].
  absl::StatusOr<std::vector<float>> TakeHidden(const AskedHidden& asked) const;

  // The k best labels of each sample: exactly, or among the candidates that hashing finds, or among
  // those of the batch if it has any. With a wanted recall the first hashed queries are answered
  // exactly, see RecallTuner. `step` numbers the forward pass at the shards; pass ever
  // larger ones.
  absl::StatusOr<std::vector<Prediction>> Predict(PreparedBatch batch, int64_t k, bool hashed,
                                                  int64_t step);
  // The same for hidden vectors: [samples, head dim].
  absl::StatusOr<std::vector<Prediction>> Score(std::vector<float> hidden, int64_t k, bool hashed);

  // The logits of candidates, at most kMaxCandidates of a sample: [candidates].
  absl::StatusOr<std::vector<float>> ScoreCandidates(const AskedHidden& asked,
                                                     const ExplicitRows<RowId>& candidates) const;

  // How much of the exact top 1 and top 10 of each point the hash tables find, by comparing hashed
  // with exact top-k. Zero samples when nothing is hashed.
  absl::StatusOr<RecallCount> MeasureRecall(const Dataset& data, absl::Span<const int64_t> points,
                                            int64_t* next_step);

  // Accuracy over `points` of the dataset, at the cut-offs of `metrics`, which has seen no point
  // yet; its depth is at most 1024. Points without labels do not count. Uses step numbers from
  // *next_step on and advances it. `progress` (may be null) hears of points done. `use` is not
  // training.
  // Errors: InvalidArgument when no point has a label; those of the dataset and of the shards.
  absl::StatusOr<std::vector<AccuracyAtK>> Evaluate(const Dataset& data,
                                                    absl::Span<const int64_t> points, BatchUse use,
                                                    RankingMetrics metrics, int64_t* next_step,
                                                    const std::function<void(int64_t)>& progress);

 private:
  absl::StatusOr<TopKReply> ScoreGiven(std::vector<float> hidden, ExplicitRows<RowId> candidates,
                                       int64_t k) const;

  const Network& network_;
  const BatchPreparer& preparer_;
  const std::vector<StepChannel*> shards_;
  const TopKScorer top_k_;
  const EvaluatorOptions options_;
  std::optional<RecallTuner> tuner_;  // where a recall is wanted
};

}  // namespace dslide
