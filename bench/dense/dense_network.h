// The baseline: the same network as dslide trains, without hashing and without a network.
//
//   embedding bag (features -> H), bias, ReLU, full softmax over all labels; Adam.
//
// Every step computes all labels of all samples with BLAS, in blocks of labels that stay in a
// processor's cache from their product to their update, on all processors. What is fair and what is
// not: docs/contribute/benchmarking.md.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/dense/dense_head.h"
#include "core/base/clock.h"
#include "core/base/parallel.h"
#include "core/engine/data/sparse_batch.h"
#include "core/system/aligned_buffer.h"

namespace dslide::bench {

struct DenseOptions {
  int64_t features = 0;  // [1, kMaxTableRows]
  int64_t hidden = 128;  // [1, 65536]
  int64_t labels = 0;    // [1, kMaxTableRows]
  int64_t max_batch = 256;
  DenseAdam adam;
  uint64_t seed = 1;  // of the first weights
  Parallelism parallelism;

  // Errors: InvalidArgument naming the field, the value and the range.
  absl::Status Validate() const;
};

struct DenseStep {
  double loss = 0.0;  // mean softmax cross-entropy of the samples; a label's target is 1 / labels
  int64_t input_rows = 0;  // distinct features of the batch
  // Seconds.
  double embed = 0.0;          // sparse inputs to hidden vectors
  double head_forward = 0.0;   // logits, exponentials
  double head_backward = 0.0;  // gradients of both sides, Adam of the head
  double input_update = 0.0;   // Adam of the touched features
  double total() const { return embed + head_forward + head_backward + input_update; }
};

// Not thread-safe. The same steps give the same bits for any number of threads.
class DenseNetwork {
 public:
  // Errors: those of Validate(); Unimplemented in a build without a BLAS library;
  // ResourceExhausted when the memory is not there: 12 bytes for each weight (Adam) and
  // 4 * max_batch * labels for the logits.
  static absl::StatusOr<std::unique_ptr<DenseNetwork>> Create(const DenseOptions& options);

  // One training step on 1 to max_batch samples; those without labels count as loss 0.
  // Errors: InvalidArgument naming the sample and the id beyond the shape, with nothing changed.
  absl::StatusOr<DenseStep> Train(const SparseBatch& batch);

  const DenseOptions& options() const { return options_; }
  const DenseHead& head() const { return *head_; }
  absl::Span<const float> embedding() const { return embedding_.span(); }  // [features, hidden]
  absl::Span<const float> hidden_bias() const { return bias_.span(); }     // [hidden]
  // First moments of Adam: (1 - beta1) times the gradient after one step.
  absl::Span<const float> embedding_moment() const { return embedding_m_.span(); }

 private:
  // One non-zero input of a batch.
  struct Input {
    uint32_t feature;
    uint32_t sample;
    float value;
  };

  explicit DenseNetwork(const DenseOptions& options) : options_(options) {}

  absl::Status Allocate();
  void InitializeWeights();
  absl::Status CheckBatch(const SparseBatch& batch) const;
  void Embed(const SparseBatch& batch);
  void MaskHiddenGradient(int64_t samples);
  int64_t UpdateInput(const SparseBatch& batch);

  const DenseOptions options_;
  int64_t steps_ = 0;
  AlignedBuffer embedding_, embedding_m_, embedding_v_;  // [features, hidden]
  AlignedBuffer bias_, bias_m_, bias_v_;                 // [hidden]
  AlignedBuffer hidden_;                                 // [max_batch, hidden], after ReLU
  AlignedBuffer hidden_gradient_;                        // [max_batch, hidden]
  std::unique_ptr<DenseHead> head_;
  std::vector<Input> inputs_;         // of the step, by feature
  std::vector<int64_t> first_input_;  // of each distinct feature, and the end
};

}  // namespace dslide::bench
