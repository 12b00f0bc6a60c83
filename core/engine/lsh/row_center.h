// Prepares rows for hashing: subtracts the mean row and completes the norm. Internal to core/lsh.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/engine/lsh/hash_index.h"
#include "core/spec/hash_spec.h"

namespace dslide {

// The mean row and the norm bound M of one moment; both stay as they are while rows change.
//
// Only additions in a fixed order, so the bits depend on neither the threads nor the CPU.
// Thread safety: const methods are concurrent.
class RowCenter {
 public:
  RowCenter() = default;

  // Measures `rows`: their mean (0 unless spec.center) and the spec.norm_quantile of the norms of
  // the centred rows, bias included (0 unless spec.norm_coordinate). Of more than kMeasuredRows
  // rows so many are looked at, evenly spread: their mean is off by 1/128 of one row's deviation.
  static constexpr int64_t kMeasuredRows = 16384;
  static RowCenter Measure(const HashedRows& rows, const HashSpec& spec, Parallelism parallelism);

  // One that was measured before. mean: [dim + 1].
  static RowCenter Of(const HashSpec& spec, std::vector<float> mean, float bound_squared);

  const std::vector<float>& mean() const { return mean_; }
  float bound_squared() const { return bound_squared_; }

  // Writes row `weights` ([dim]) minus the mean to `centered` ([dim]), and its centred bias and
  // norm coordinate sqrt(max(0, M^2 - |centred row and bias|^2)) to `extras` ([2]).
  void Center(const float* weights, float bias, float* centered, float* extras) const;

  // Whether rows hashed with `other` lie noticeably elsewhere than with this one: the mean row has
  // moved, or the norm bound has changed, by more than `tolerance` of the other's norm bound.
  // Without a norm bound any difference counts.
  bool HasMovedFrom(const RowCenter& other, float tolerance) const;

 private:
  // Writes the centred row and returns its squared norm, bias included.
  float Subtract(const float* weights, float bias, float* centered) const;

  std::vector<float> mean_;  // [dim + 1]: the last is the bias's
  bool norm_coordinate_ = false;
  float bound_squared_ = 0.0f;  // M^2
};

}  // namespace dslide
