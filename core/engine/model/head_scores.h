// The forward pass of a head: logits of the selected rows, and each sample's part of the softmax.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/model/head_context.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/engine/rows/row_store.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Keeps its memory from batch to batch. Not thread-safe; uses threads inside. Sums over rows have
// kFixedPartitions parts added in order, so the bits do not depend on the threads.
class HeadScorer {
 public:
  // Requires a selected context. Fills its scores and max_logits, and the output's max_logits,
  // exp_sums and label_logits.
  //   logit_offsets : [active pairs] added to their logits; or empty: all 0
  void Score(const RowStore& store, HeadLoss loss, absl::Span<const float> logit_offsets,
             Parallelism parallelism, HeadContext& context, HeadForwardOutput& output);

 private:
  // One partition's part of each sample, [batch] each.
  struct Part {
    std::vector<float> max_logits;
    std::vector<double> sums;
    std::vector<float> weights;  // of a shared row: tail weights, those of pairs where it is active
  };

  void ComputeLogits(const RowStore& store, absl::Span<const float> logit_offsets, int64_t begin,
                     int64_t end, HeadContext& context) const;
  static void TakeMaxima(const HeadContext& context, int64_t begin, int64_t end, Part& part);
  static void SumSoftmax(int64_t begin, int64_t end, HeadContext& context, Part& part);
  static void SumSigmoid(const HeadContext& context, int64_t begin, int64_t end, Part& part);

  AlignedRows hidden_;                 // [batch, dim]
  std::vector<uint32_t> all_samples_;  // 0, 1, 2, ...
  std::vector<Part> parts_;            // [kFixedPartitions]
};

}  // namespace dslide
