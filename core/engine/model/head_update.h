// The backward pass of a head: gradients of the selected rows, each applied once.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/model/head_context.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/engine/rows/row_store.h"
#include "core/spec/model_spec.h"

namespace dslide {

// The numbers of one update.
struct HeadUpdate {
  HeadLoss loss = HeadLoss::kSoftmax;
  absl::Span<const float> log_partitions;  // [batch]; softmax
  float scale = 1.0f;                      // of the summed loss
  bool fixed_bias = false;                 // biases get a gradient of 0
  float magnitude_bound = 0.0f;
  Step step;                                           // number of this update
  std::optional<double> learning_rate = std::nullopt;  // none: the schedule's
};

// Keeps its memory from batch to batch. Not thread-safe; uses threads inside. A row is updated by
// one thread in sample order, and the hidden gradient has kFixedPartitions parts added in order, so
// the bits do not depend on the threads.
class HeadUpdater {
 public:
  // Updates each row of the context once, with the gradient at its present weights.
  //   dirty : [store.num_rows()]; set to 1 for every row of the context
  //   hidden_gradient : [batch, dim], overwritten
  // Returns the number of rows that the magnitude bound refused.
  int64_t Run(const HeadUpdate& update, const HeadContext& context, Parallelism parallelism,
              RowStore& store, absl::Span<uint8_t> dirty, absl::Span<float> hidden_gradient);

 private:
  // Working memory of one thread.
  struct Worker {
    AlignedFloats row_gradient;       // [dim]
    AlignedFloats weights;            // of a row, widened
    std::vector<float> coefficients;  // [batch]: derivatives of the loss by the logits of one row
    int64_t rejected = 0;
  };

  void PrepareFactors(const HeadUpdate& update, const HeadContext& context);
  // Of the label that the i-th row is for a sample.
  float TargetOf(const HeadContext& context, int64_t i, uint32_t sample) const;
  void SoftmaxCoefficients(const HeadContext& context, int64_t i, float* g) const;
  void SigmoidCoefficients(const HeadContext& context, int64_t i, float* g) const;
  void AddPartitions(int64_t batch, int64_t dim, Parallelism parallelism,
                     absl::Span<float> total) const;

  std::vector<uint32_t> all_samples_;        // 0, 1, 2, ...
  std::vector<float> active_factors_;        // [batch], by which a score of weight 1 counts
  std::vector<float> tail_factors_;          // [batch], of a score that is not active
  std::vector<float> targets_;               // [batch], scaled
  AlignedRows hidden_;                       // [batch, dim]
  std::vector<AlignedFloats> hidden_parts_;  // [kFixedPartitions][batch, hidden_.stride()]
  std::vector<Worker> workers_;
};

}  // namespace dslide
