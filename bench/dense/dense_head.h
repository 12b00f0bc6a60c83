// The baseline's output layer: every label of every sample, every step.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/dense/adam.h"
#include "core/base/parallel.h"
#include "core/engine/data/sparse_batch.h"
#include "core/system/aligned_buffer.h"

namespace dslide::bench {

// Labels are handled in blocks of kBlockLabels. A block's exponentials are kept from Forward() to
// Backward(): 4 bytes for each label and sample. Not thread-safe.
class DenseHead {
 public:
  // Labels of a block: with 256 samples its logits are 1 MB and its weights at 128 hidden units
  // 0.5 MB, which a second-level cache of 2 MB holds together.
  static constexpr int64_t kBlockLabels = 1024;

  // Errors: ResourceExhausted when the memory is not there.
  static absl::StatusOr<std::unique_ptr<DenseHead>> Create(int64_t labels, int64_t dim,
                                                           int64_t max_batch, uint64_t seed,
                                                           Parallelism parallelism);

  // Computes the softmax of all labels and returns the mean loss.
  //   hidden : [samples, dim], read again by Backward()
  double Forward(const SparseBatch& batch, const float* hidden);

  // Updates all weights with the gradient of the mean loss of the last Forward().
  //   step            : of Adam, from 1
  //   hidden_gradient : [samples, dim], overwritten
  void Backward(const float* hidden, const DenseAdam& adam, int64_t step, float* hidden_gradient);

  absl::Span<const float> weights() const { return weights_.span(); }  // [labels, dim]
  absl::Span<const float> bias() const { return bias_.span(); }        // [labels]
  absl::Span<const float> moment() const { return m_.span(); }  // first moments, [labels, dim]
  absl::Span<const float> bias_moment() const { return bias_m_.span(); }

 private:
  // A correct label of a sample.
  struct Target {
    uint32_t label;
    uint32_t sample;
    float weight;  // 1 / labels of the sample
    float logit;   // written by Forward()
  };
  // What one thread at a time works with.
  struct Scratch {
    AlignedBuffer gradient;         // [kBlockLabels, dim]
    AlignedBuffer bias_gradient;    // [kBlockLabels]
    AlignedBuffer scaled_hidden;    // [max_batch, dim]
    AlignedBuffer product;          // [max_batch, dim]
    AlignedBuffer hidden_gradient;  // [max_batch, dim], the sum over a partition's blocks
  };

  DenseHead(int64_t labels, int64_t dim, int64_t max_batch, Parallelism parallelism);
  absl::Status Allocate();

  int64_t NumBlocks() const { return (labels_ + kBlockLabels - 1) / kBlockLabels; }
  int64_t BlockSize(int64_t block) const;
  float* Exponentials(int64_t block) { return logits_.data() + block * kBlockLabels * max_batch_; }
  absl::Span<Target> TargetsOf(int64_t block);
  void CollectTargets(const SparseBatch& batch);
  void ForwardBlock(int64_t block, const float* hidden);
  double Combine(const SparseBatch& batch);
  void BackwardBlock(int64_t block, const float* hidden, Scratch& scratch);
  void UpdateBlock(int64_t block, const DenseAdam& adam, int64_t step, const Scratch& scratch);
  void ApplyTargets(int64_t block, const float* hidden, Scratch& scratch);

  const int64_t labels_;
  const int64_t dim_;
  const int64_t max_batch_;
  const Parallelism parallelism_;
  int64_t samples_ = 0;  // of the last Forward()
  AlignedBuffer weights_, m_, v_;
  AlignedBuffer bias_, bias_m_, bias_v_;
  AlignedBuffer logits_;  // by block: [samples, block size]; exp(logit - maximum of the block)
  std::vector<float> block_max_;  // [blocks, max_batch]
  std::vector<float> block_sum_;  // [blocks, max_batch]; sums, then Combine()'s factors
  std::vector<Target> targets_;   // by label
  std::vector<Scratch> scratch_;  // by partition
};

}  // namespace dslide::bench
