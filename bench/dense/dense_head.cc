#include "bench/dense/dense_head.h"

#include <algorithm>
#include <cmath>

#include "bench/dense/blas.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/rows/row_init.h"
#include "core/spec/model_spec.h"

namespace dslide::bench {
namespace {

// Blocks are dealt to so many consecutive ranges, each with a sum of its own for the hidden
// gradient, added in order: the same bits for any number of threads.
constexpr int64_t kPartitions = 32;

float MaximumOf(const float* x, int64_t n) {
  float maximum = x[0];
#pragma omp simd reduction(max : maximum)
  for (int64_t i = 0; i < n; ++i) maximum = std::max(maximum, x[i]);
  return maximum;
}

float SumOf(const float* x, int64_t n) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

absl::Status MakeBuffer(int64_t size, AlignedBuffer& buffer) {
  ASSIGN_OR_RETURN(buffer, AlignedBuffer::Create(size));
  return absl::OkStatus();
}

}  // namespace

DenseHead::DenseHead(int64_t labels, int64_t dim, int64_t max_batch, Parallelism parallelism)
    : labels_(labels), dim_(dim), max_batch_(max_batch), parallelism_(parallelism) {}

absl::StatusOr<std::unique_ptr<DenseHead>> DenseHead::Create(int64_t labels, int64_t dim,
                                                             int64_t max_batch, uint64_t seed,
                                                             Parallelism parallelism) {
  auto head = std::unique_ptr<DenseHead>(new DenseHead(labels, dim, max_batch, parallelism));
  RETURN_IF_ERROR(head->Allocate());
  TableSpec spec;
  spec.name = "labels";
  spec.dim = dim;
  const RowInit init(spec, seed);
  ParallelFor(parallelism, labels, kBlockLabels, [&](int64_t label, int) {
    init.Fill(RowId(static_cast<uint32_t>(label)), head->weights_.span().subspan(label * dim, dim));
  });
  return head;
}

absl::Status DenseHead::Allocate() {
  for (AlignedBuffer* buffer : {&weights_, &m_, &v_}) {
    RETURN_IF_ERROR(MakeBuffer(labels_ * dim_, *buffer));
  }
  for (AlignedBuffer* buffer : {&bias_, &bias_m_, &bias_v_}) {
    RETURN_IF_ERROR(MakeBuffer(labels_, *buffer));
  }
  RETURN_IF_ERROR(MakeBuffer(NumBlocks() * kBlockLabels * max_batch_, logits_));
  block_max_.resize(NumBlocks() * max_batch_);
  block_sum_.resize(NumBlocks() * max_batch_);
  scratch_.resize(kPartitions);
  for (Scratch& scratch : scratch_) {
    RETURN_IF_ERROR(MakeBuffer(kBlockLabels * dim_, scratch.gradient));
    RETURN_IF_ERROR(MakeBuffer(kBlockLabels, scratch.bias_gradient));
    RETURN_IF_ERROR(MakeBuffer(max_batch_ * dim_, scratch.scaled_hidden));
    RETURN_IF_ERROR(MakeBuffer(max_batch_ * dim_, scratch.product));
    RETURN_IF_ERROR(MakeBuffer(max_batch_ * dim_, scratch.hidden_gradient));
  }
  return absl::OkStatus();
}

int64_t DenseHead::BlockSize(int64_t block) const {
  return std::min(kBlockLabels, labels_ - block * kBlockLabels);
}

absl::Span<DenseHead::Target> DenseHead::TargetsOf(int64_t block) {
  const auto before = [](const Target& target, int64_t label) { return target.label < label; };
  const auto begin =
      std::lower_bound(targets_.begin(), targets_.end(), block * kBlockLabels, before);
  const auto end = std::lower_bound(begin, targets_.end(), (block + 1) * kBlockLabels, before);
  return absl::MakeSpan(targets_).subspan(begin - targets_.begin(), end - begin);
}

void DenseHead::CollectTargets(const SparseBatch& batch) {
  targets_.clear();
  for (int64_t sample = 0; sample < batch.samples(); ++sample) {
    const absl::Span<const RowId> labels = batch.LabelsOf(sample);
    for (const RowId label : labels) {
      targets_.push_back({.label = label.value(),
                          .sample = static_cast<uint32_t>(sample),
                          .weight = 1.0f / static_cast<float>(labels.size()),
                          .logit = 0.0f});
    }
  }
  std::sort(targets_.begin(), targets_.end(), [](const Target& a, const Target& b) {
    return a.label != b.label ? a.label < b.label : a.sample < b.sample;
  });
}

double DenseHead::Forward(const SparseBatch& batch, const float* hidden) {
  samples_ = batch.samples();
  CollectTargets(batch);
  ParallelFor(parallelism_, NumBlocks(), 1,
              [&](int64_t block, int) { ForwardBlock(block, hidden); });
  return Combine(batch);
}

void DenseHead::ForwardBlock(int64_t block, const float* hidden) {
  const int64_t first = block * kBlockLabels;
  const int64_t size = BlockSize(block);
  float* const logits = Exponentials(block);
  MultiplyTransposed(hidden, weights_.data() + first * dim_, samples_, size, dim_, logits);
  for (int64_t sample = 0; sample < samples_; ++sample) {
    AddTo(bias_.data() + first, logits + sample * size, size);
  }
  for (Target& target : TargetsOf(block)) {
    target.logit = logits[target.sample * size + (target.label - first)];
  }
  for (int64_t sample = 0; sample < samples_; ++sample) {
    float* const row = logits + sample * size;
    const float maximum = MaximumOf(row, size);
    ExpShifted(row, size, maximum);
    block_max_[block * max_batch_ + sample] = maximum;
    block_sum_[block * max_batch_ + sample] = SumOf(row, size);
  }
}

// Joins the blocks' softmax sums; leaves in block_sum_ what turns a block's exponentials into the
// gradient by its logits: exp(maximum of the block - log partition) / samples.
double DenseHead::Combine(const SparseBatch& batch) {
  std::vector<double> log_partitions(samples_);
  for (int64_t sample = 0; sample < samples_; ++sample) {
    double maximum = block_max_[sample];
    for (int64_t block = 1; block < NumBlocks(); ++block) {
      maximum = std::max(maximum, static_cast<double>(block_max_[block * max_batch_ + sample]));
    }
    double sum = 0.0;
    for (int64_t block = 0; block < NumBlocks(); ++block) {
      const int64_t at = block * max_batch_ + sample;
      sum += block_sum_[at] * std::exp(block_max_[at] - maximum);
    }
    log_partitions[sample] = maximum + std::log(sum);
    const double scale = batch.LabelsOf(sample).empty() ? 0.0 : 1.0 / static_cast<double>(samples_);
    for (int64_t block = 0; block < NumBlocks(); ++block) {
      const int64_t at = block * max_batch_ + sample;
      block_sum_[at] =
          static_cast<float>(scale * std::exp(block_max_[at] - log_partitions[sample]));
    }
  }
  double loss = 0.0;
  for (const Target& target : targets_) {
    loss += target.weight * (log_partitions[target.sample] - target.logit);
  }
  return loss / static_cast<double>(samples_);
}

void DenseHead::Backward(const float* hidden, const DenseAdam& adam, int64_t step,
                         float* hidden_gradient) {
  const int64_t floats = samples_ * dim_;
  ParallelFor(parallelism_, kPartitions, 1, [&](int64_t partition, int) {
    Scratch& scratch = scratch_[partition];
    std::fill_n(scratch.hidden_gradient.data(), floats, 0.0f);
    const auto [begin, end] = PartitionRange(NumBlocks(), kPartitions, partition);
    for (int64_t block = begin; block < end; ++block) {
      BackwardBlock(block, hidden, scratch);
      UpdateBlock(block, adam, step, scratch);
    }
  });
  std::fill_n(hidden_gradient, floats, 0.0f);
  for (const Scratch& scratch : scratch_) {
    AddTo(scratch.hidden_gradient.data(), hidden_gradient, floats);
  }
}

// The gradient by a logit is factor[sample] * exponential, minus the target's part at labels. The
// factor is applied to the narrow side of each product, so the exponentials are read and never
// written again.
void DenseHead::BackwardBlock(int64_t block, const float* hidden, Scratch& scratch) {
  const int64_t first = block * kBlockLabels;
  const int64_t size = BlockSize(block);
  const float* const exponentials = Exponentials(block);
  const float* const sample_factors = block_sum_.data() + block * max_batch_;
  const float* const weights = weights_.data() + first * dim_;

  std::fill_n(scratch.scaled_hidden.data(), samples_ * dim_, 0.0f);
  std::fill_n(scratch.bias_gradient.data(), size, 0.0f);
  Multiply(exponentials, weights, samples_, dim_, size, scratch.product.data());
  for (int64_t sample = 0; sample < samples_; ++sample) {
    const float factor = sample_factors[sample];
    const int64_t at = sample * dim_;
    Axpy(factor, scratch.product.data() + at, scratch.hidden_gradient.data() + at, dim_);
    Axpy(factor, hidden + at, scratch.scaled_hidden.data() + at, dim_);
    Axpy(factor, exponentials + sample * size, scratch.bias_gradient.data(), size);
  }
  TransposedMultiply(exponentials, scratch.scaled_hidden.data(), size, dim_, samples_,
                     scratch.gradient.data());
  ApplyTargets(block, hidden, scratch);
}

void DenseHead::UpdateBlock(int64_t block, const DenseAdam& adam, int64_t step,
                            const Scratch& scratch) {
  const int64_t first = block * kBlockLabels;
  const int64_t size = BlockSize(block);
  const int64_t at = first * dim_;
  adam.Update(step, size * dim_, scratch.gradient.data(), weights_.data() + at, m_.data() + at,
              v_.data() + at);
  adam.Update(step, size, scratch.bias_gradient.data(), bias_.data() + first,
              bias_m_.data() + first, bias_v_.data() + first);
}

void DenseHead::ApplyTargets(int64_t block, const float* hidden, Scratch& scratch) {
  const int64_t first = block * kBlockLabels;
  for (const Target& target : TargetsOf(block)) {
    const float pull = -target.weight / static_cast<float>(samples_);
    const int64_t row = target.label - first;
    Axpy(pull, hidden + target.sample * dim_, scratch.gradient.data() + row * dim_, dim_);
    Axpy(pull, weights_.data() + target.label * dim_,
         scratch.hidden_gradient.data() + target.sample * dim_, dim_);
    scratch.bias_gradient.data()[row] += pull;
  }
}

}  // namespace dslide::bench
