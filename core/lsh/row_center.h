// Prepares rows for hashing: subtracts the mean row and completes the norm. Internal to core/lsh.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/lsh/hash_index.h"
#include "core/lsh/hash_spec.h"

namespace dslide {

// The mean row and the norm bound M of one moment; both stay as they are while rows change.
//
// Only additions in a fixed order, so the bits depend on neither the threads nor the CPU.
// Thread safety: const methods are concurrent.
class RowCenter {
 public:
  RowCenter() = default;

  // Measures `rows`: their mean (0 unless spec.center) and the spec.norm_quantile of the norms of
  // the centred rows, bias included (0 unless spec.norm_coordinate).
  static RowCenter Measure(const HashedRows& rows, const HashSpec& spec, Parallelism parallelism);

  // Writes row `weights` ([dim]) minus the mean to `centered` ([dim]), and its centred bias and
  // norm coordinate sqrt(max(0, M^2 - |centred row and bias|^2)) to `extras` ([2]).
  void Center(const float* weights, float bias, float* centered, float* extras) const;

 private:
  // Squared norm of the centred row and bias.
  float CenteredSquares(const float* weights, float bias) const;

  std::vector<float> mean_;  // [dim + 1]: the last is the bias's
  bool norm_coordinate_ = false;
  float bound_squared_ = 0.0f;  // M^2
};

}  // namespace dslide
