#include "core/engine/model/head_update.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

// Whole records are three times what the forward pass reads, so fewer are asked for ahead: 1 to 4
// made no difference in bench/train/head_step_benchmark.cc, none at all cost 5 % of the stage.
constexpr int64_t kUpdatedRowsAhead = 2;
constexpr int64_t kSamplesPerGrain = 32;

// 1 / (1 + exp(-x)) without overflow.
float Sigmoid(float x) {
  const float e = std::exp(-std::abs(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

}  // namespace

int64_t HeadUpdater::Run(const HeadUpdate& update, const HeadContext& context,
                         Parallelism parallelism, RowStore& store, absl::Span<uint8_t> dirty,
                         absl::Span<float> hidden_gradient) {
  const int64_t batch = context.batch.batch();
  const int64_t dim = store.dim();
  const int64_t num_rows = static_cast<int64_t>(context.rows.size());
  if (static_cast<int64_t>(all_samples_.size()) < batch) {
    all_samples_.resize(batch);
    std::iota(all_samples_.begin(), all_samples_.end(), 0);
  }
  workers_.resize(std::max(1, parallelism.threads));
  for (Worker& worker : workers_) {
    worker.row_gradient.Resize(dim);
    worker.weights.Resize(store.stride());
    worker.coefficients.resize(batch);
    worker.rejected = 0;
  }
  hidden_.Copy(context.batch.hidden, dim);
  hidden_parts_.resize(kFixedPartitions);
  PrepareFactors(update, context);
  const RowUpdate row_update =
      store.BeginUpdate(update.step, update.magnitude_bound, update.learning_rate);

  const absl::Span<const uint32_t> everyone = absl::MakeConstSpan(all_samples_).subspan(0, batch);
  ParallelFor(parallelism, kFixedPartitions, /*grain=*/1, [&](int64_t p, int thread) {
    const auto [begin, end] = PartitionRange(num_rows, kFixedPartitions, p);
    Worker& worker = workers_[thread];
    AlignedFloats& hidden_part = hidden_parts_[p];
    hidden_part.Resize(batch * hidden_.stride());
    std::fill_n(hidden_part.data(), batch * hidden_.stride(), 0.0f);
    for (int64_t i = begin; i < end; ++i) {
      if (i + kUpdatedRowsAhead < end) {
        store.PrefetchRecord(context.rows[i + kUpdatedRowsAhead]);
        __builtin_prefetch(&dirty[context.rows[i + kUpdatedRowsAhead].value()], 1);
      }
      const LocalRow row = context.rows[i];
      if (update.loss == HeadLoss::kSoftmax) {
        SoftmaxCoefficients(context, i, worker.coefficients.data());
      } else {
        SigmoidCoefficients(context, i, worker.coefficients.data());
      }
      float bias_gradient = RowGradients(
          store.ReadWeights(row, worker.weights.data()), hidden_.data(), dim, hidden_.stride(),
          context.is_shared[i] != 0 ? everyone : context.SamplesOf(i), worker.coefficients.data(),
          worker.row_gradient.data(), hidden_part.data());
      if (update.fixed_bias) bias_gradient = 0.0f;
      if (!store.ApplyGradient(row, worker.row_gradient.data(), bias_gradient, row_update)) {
        ++worker.rejected;
      }
      dirty[row.value()] = 1;
    }
  });
  AddPartitions(batch, dim, parallelism, hidden_gradient);
  int64_t rejected = 0;
  for (const Worker& worker : workers_) rejected += worker.rejected;
  return rejected;
}

// A softmax score is exp(logit - max), so the probability is score * exp(max - log partition).
void HeadUpdater::PrepareFactors(const HeadUpdate& update, const HeadContext& context) {
  const int64_t batch = context.batch.batch();
  active_factors_.resize(batch);
  tail_factors_.resize(batch);
  targets_.resize(batch);
  for (int64_t s = 0; s < batch; ++s) {
    active_factors_[s] = update.scale;
    if (update.loss == HeadLoss::kSoftmax) {
      // The targets of a sample add up to 1, or to 0 when it has no labels: then it has no loss.
      // Where labels have weights, log_partitions are less the log of the targets' sum.
      active_factors_[s] *= context.batch.label_targets[s] == 0.0f
                                ? 0.0f
                                : std::exp(context.max_logits[s] - update.log_partitions[s]);
    }
    tail_factors_[s] = active_factors_[s] * context.tail_weights[s];
    targets_[s] = update.scale * context.batch.label_targets[s];
  }
}

float HeadUpdater::TargetOf(const HeadContext& context, int64_t i, uint32_t sample) const {
  const HeadBatch& batch = context.batch;
  if (batch.label_weights.empty()) return targets_[sample];
  const absl::Span<const LocalRow> labels = batch.LabelsOf(sample);
  const auto found = std::lower_bound(labels.begin(), labels.end(), context.rows[i]);
  const int64_t place = batch.label_offsets[sample] + (found - labels.begin());
  return targets_[sample] * batch.label_weights[place];
}

// Writes one coefficient per score of row i.
void HeadUpdater::SoftmaxCoefficients(const HeadContext& context, int64_t i, float* g) const {
  const absl::Span<const float> scores = context.ScoresOf(i);
  const bool shared = context.is_shared[i] != 0;
  if (shared) {
    for (size_t s = 0; s < scores.size(); ++s) g[s] = scores[s] * tail_factors_[s];
  }
  const uint32_t first = context.pair_offsets[i];
  for (uint32_t k = first; k < context.pair_offsets[i + 1]; ++k) {
    const uint32_t sample = context.samples[k];
    const uint32_t place = shared ? sample : k - first;
    g[place] = scores[place] * active_factors_[sample] * context.PairWeight(k);
    if (context.is_label[k] != 0) g[place] -= TargetOf(context, i, sample);
  }
}

void HeadUpdater::SigmoidCoefficients(const HeadContext& context, int64_t i, float* g) const {
  const absl::Span<const float> scores = context.ScoresOf(i);
  const bool shared = context.is_shared[i] != 0;
  if (shared) {
    for (size_t s = 0; s < scores.size(); ++s) g[s] = Sigmoid(scores[s]) * tail_factors_[s];
  }
  const uint32_t first = context.pair_offsets[i];
  for (uint32_t k = first; k < context.pair_offsets[i + 1]; ++k) {
    const uint32_t sample = context.samples[k];
    const uint32_t place = shared ? sample : k - first;
    g[place] = Sigmoid(scores[place]) * active_factors_[sample] * context.PairWeight(k);
    if (context.is_label[k] != 0) g[place] -= targets_[sample];
  }
}

void HeadUpdater::AddPartitions(int64_t batch, int64_t dim, Parallelism parallelism,
                                absl::Span<float> total) const {
  ParallelFor(parallelism, batch, kSamplesPerGrain, [&](int64_t sample, int) {
    const int64_t at = sample * hidden_.stride();
    float* const sum = total.data() + sample * dim;
    std::copy_n(hidden_parts_[0].data() + at, dim, sum);
    for (int64_t p = 1; p < kFixedPartitions; ++p) AddTo(hidden_parts_[p].data() + at, sum, dim);
  });
}

}  // namespace dslide
