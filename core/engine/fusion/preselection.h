// Which candidates of a sample trees and linear rows are asked about: most are too far behind by
// what is known before.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/fusion/fusion_fit.h"
#include "core/engine/fusion/fusion_inputs.h"

namespace dslide {

struct Preselection {
  int64_t candidates = 0;      // kept of a sample where ten labels are wanted; 0: all
  std::vector<float> weights;  // [kFusionInputs]: 0 for what trees and linear rows say

  // Where k labels are wanted.
  int64_t KeptFor(int64_t k) const;
  // Keeps so many candidates of a sample, in their order: those with the largest w.x, earlier ones
  // first among equals. Of the inputs, trees and linear rows have none yet.
  //   points : of the memory
  void Apply(int64_t k, double points, ComponentScores& scores) const;
};

// As few candidates as have, over all samples, 99 % of the ten best by `weights`.
Preselection FitPreselection(FusionSamples samples, absl::Span<const float> weights,
                             Parallelism parallelism);

}  // namespace dslide
