#include "core/engine/model/head_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "core/engine/math/kernels.h"
#include "core/engine/rows/aligned_floats.h"

namespace dslide {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kScoredRowsAhead = 8;
// Scores that are exponentiated and summed while they are in the L1 cache.
constexpr uint64_t kScoresPerBlock = 4096;

// Calls body(begin, end) for runs of rows in [begin, end) with about kScoresPerBlock scores each.
template <typename Body>
void ForEachBlock(const HeadContext& context, int64_t begin, int64_t end, const Body& body) {
  while (begin < end) {
    int64_t block_end = begin + 1;
    while (block_end < end &&
           context.score_offsets[block_end] - context.score_offsets[begin] < kScoresPerBlock) {
      ++block_end;
    }
    body(begin, block_end);
    begin = block_end;
  }
}

// Writes the logits of row i's labels to their places in `label_logits`.
void TakeLabelLogits(const HeadContext& context, int64_t i, absl::Span<float> label_logits) {
  const bool shared = context.is_shared[i] != 0;
  const float* const scores = context.scores.data() + context.score_offsets[i];
  const uint32_t first = context.pair_offsets[i];
  for (uint32_t k = first; k < context.pair_offsets[i + 1]; ++k) {
    if (context.is_label[k] == 0) continue;
    const uint32_t sample = context.samples[k];
    const absl::Span<const LocalRow> labels = context.batch.LabelsOf(sample);
    const int64_t place =
        std::lower_bound(labels.begin(), labels.end(), context.rows[i]) - labels.begin();
    label_logits[context.batch.label_offsets[sample] + place] =
        shared ? scores[sample] : scores[k - first];
  }
}

// Adds offsets to the logits of row i's pairs. logit_offsets: [active pairs].
void AddLogitOffsets(absl::Span<const float> logit_offsets, int64_t i, HeadContext& context) {
  const bool shared = context.is_shared[i] != 0;
  const uint32_t first = context.pair_offsets[i];
  float* const scores = context.scores.data() + context.score_offsets[i];
  for (uint32_t k = first; k < context.pair_offsets[i + 1]; ++k) {
    scores[shared ? context.samples[k] : k - first] += logit_offsets[k];
  }
}

// Adds the terms of row i, weighted, to the samples' sums. Uses `weights`, [batch], which are the
// tail weights before and after.
template <typename Term>
void AddTerms(const HeadContext& context, int64_t i, float* weights, double* sums,
              const Term& term) {
  const absl::Span<const float> scores = context.ScoresOf(i);
  const absl::Span<const uint32_t> samples = context.SamplesOf(i);
  const uint32_t first = context.pair_offsets[i];
  if (context.is_shared[i] != 0) {
    for (size_t k = 0; k < samples.size(); ++k) weights[samples[k]] = context.PairWeight(first + k);
    for (size_t s = 0; s < scores.size(); ++s) sums[s] += weights[s] * term(scores[s]);
    for (const uint32_t sample : samples) weights[sample] = context.tail_weights[sample];
  } else if (context.pair_weights.empty()) {
    for (size_t k = 0; k < scores.size(); ++k) sums[samples[k]] += term(scores[k]);
  } else {
    const float* const pairs = context.pair_weights.data() + first;
    for (size_t k = 0; k < scores.size(); ++k) sums[samples[k]] += pairs[k] * term(scores[k]);
  }
}

// log(1 + exp(x)) without overflow.
float Softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

void HeadScorer::Score(const RowStore& store, HeadLoss loss, absl::Span<const float> logit_offsets,
                       Parallelism parallelism, HeadContext& context, HeadForwardOutput& output) {
  const int64_t batch = context.batch.batch();
  const int64_t num_rows = static_cast<int64_t>(context.rows.size());
  if (static_cast<int64_t>(all_samples_.size()) < batch) {
    all_samples_.resize(batch);
    std::iota(all_samples_.begin(), all_samples_.end(), 0);
  }
  hidden_.Copy(context.batch.hidden, store.dim());
  parts_.resize(kFixedPartitions);
  context.scores.resize(context.score_offsets.back());
  output.label_logits.assign(context.batch.labels.size(), 0.0f);
  const bool softmax = loss == HeadLoss::kSoftmax;

  ParallelFor(parallelism, kFixedPartitions, /*grain=*/1, [&](int64_t p, int) {
    const auto [begin, end] = PartitionRange(num_rows, kFixedPartitions, p);
    ComputeLogits(store, logit_offsets, begin, end, context);
    for (int64_t i = begin; i < end; ++i) {
      TakeLabelLogits(context, i, absl::MakeSpan(output.label_logits));
    }
    parts_[p].max_logits.assign(batch, kMinusInfinity);
    if (softmax) TakeMaxima(context, begin, end, parts_[p]);
  });
  context.max_logits.assign(batch, softmax ? kMinusInfinity : 0.0f);
  for (const Part& part : parts_) {
    for (int64_t sample = 0; softmax && sample < batch; ++sample) {
      context.max_logits[sample] = std::max(context.max_logits[sample], part.max_logits[sample]);
    }
  }
  ParallelFor(parallelism, kFixedPartitions, /*grain=*/1, [&](int64_t p, int) {
    const auto [begin, end] = PartitionRange(num_rows, kFixedPartitions, p);
    Part& part = parts_[p];
    part.sums.assign(batch, 0.0);
    part.weights = context.tail_weights;
    if (softmax) {
      ForEachBlock(context, begin, end,
                   [&](int64_t first, int64_t last) { SumSoftmax(first, last, context, part); });
    } else {
      SumSigmoid(context, begin, end, part);
    }
  });
  output.max_logits = context.max_logits;
  output.exp_sums.resize(batch);
  for (int64_t sample = 0; sample < batch; ++sample) {
    double sum = 0.0;
    for (const Part& part : parts_) sum += part.sums[sample];
    output.exp_sums[sample] = static_cast<float>(sum);
  }
}

void HeadScorer::ComputeLogits(const RowStore& store, absl::Span<const float> logit_offsets,
                               int64_t begin, int64_t end, HeadContext& context) const {
  const int64_t dim = store.dim();
  const absl::Span<const uint32_t> everyone =
      absl::MakeConstSpan(all_samples_).subspan(0, context.batch.batch());
  AlignedFloats scratch;
  scratch.Resize(store.stride());
  for (int64_t i = begin; i < end; ++i) {
    if (i + kScoredRowsAhead < end) store.Prefetch(context.rows[i + kScoredRowsAhead]);
    const LocalRow row = context.rows[i];
    RowLogits(store.ReadWeights(row, scratch.data()), store.Bias(row), hidden_.data(), dim,
              hidden_.stride(), context.is_shared[i] != 0 ? everyone : context.SamplesOf(i),
              context.ScoresOf(i).data());
    if (!logit_offsets.empty()) AddLogitOffsets(logit_offsets, i, context);
  }
}

void HeadScorer::TakeMaxima(const HeadContext& context, int64_t begin, int64_t end, Part& part) {
  float* const max_logits = part.max_logits.data();
  for (int64_t i = begin; i < end; ++i) {
    const absl::Span<const float> scores = context.ScoresOf(i);
    const absl::Span<const uint32_t> samples = context.SamplesOf(i);
    if (context.is_shared[i] != 0) {
      for (size_t s = 0; s < scores.size(); ++s) max_logits[s] = std::max(max_logits[s], scores[s]);
    } else {
      for (size_t k = 0; k < scores.size(); ++k) {
        max_logits[samples[k]] = std::max(max_logits[samples[k]], scores[k]);
      }
    }
  }
}

// Turns the logits of some rows into exp(logit - max) and adds them to the samples' sums.
void HeadScorer::SumSoftmax(int64_t begin, int64_t end, HeadContext& context, Part& part) {
  const float* const max_logits = context.max_logits.data();
  for (int64_t i = begin; i < end; ++i) {
    const absl::Span<float> scores = context.ScoresOf(i);
    const absl::Span<const uint32_t> samples = context.SamplesOf(i);
    if (context.is_shared[i] != 0) {
      for (size_t s = 0; s < scores.size(); ++s) scores[s] -= max_logits[s];
    } else {
      for (size_t k = 0; k < scores.size(); ++k) scores[k] -= max_logits[samples[k]];
    }
  }
  const uint64_t first = context.score_offsets[begin];
  ExpShifted(context.scores.data() + first,
             static_cast<int64_t>(context.score_offsets[end] - first), 0.0f);
  double* const sums = part.sums.data();
  for (int64_t i = begin; i < end; ++i) {
    AddTerms(context, i, part.weights.data(), sums, [](float score) { return score; });
  }
}

// Adds log(1 + exp(logit)) of some rows to the samples' sums; the scores stay logits.
void HeadScorer::SumSigmoid(const HeadContext& context, int64_t begin, int64_t end, Part& part) {
  for (int64_t i = begin; i < end; ++i) {
    AddTerms(context, i, part.weights.data(), part.sums.data(), Softplus);
  }
}

}  // namespace dslide
