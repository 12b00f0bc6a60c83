// Numbers in f32 with what the order of additions may change of them: clients add in any order, and
// are right as long as their results lie in these bounds.
//
// Matrices are row-major, [rows, cols]. Bounds of a product or a sum hold every number inside the
// bounds of what it is made of, and n additions and multiplications in f32 in any order: n half
// units in the last place of the sum of the magnitudes.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "client/trainer/network.h"
#include "core/protocol/replies.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Half a unit in the last place of f32.
inline constexpr double kRounding = 0x1p-24;

struct Interval {
  double low = 0;
  double high = 0;
};
using Bounds = std::vector<Interval>;

// Bounds that are exact.
Bounds Exactly(absl::Span<const float> numbers);

// The sum of the shards' parts. Of parts of several sizes, as many numbers as the smallest has.
Bounds SumBounds(absl::Span<const MatrixReply> parts);

// To the type in which a model's activations travel; f32 needs no rounding.
void RoundBounds(ActivationType type, Bounds& bounds);

// The same for who may round and need not.
void MayRoundBounds(ActivationType type, Bounds& bounds);

// max(x, 0), then dropout; without the rounding. x: [B, width].
void ActivateBounds(const HiddenDropout& dropout, int64_t layer, int64_t width, Bounds& x);

// 0 where `activated` is 0, else times 1 / (1 - p); either of them where `activated` may be 0.
void MaskBounds(const Bounds& activated, double probability, Bounds& gradient);

// W x + b. x: [B, in]; returns [B, out].
Bounds DenseBounds(const DenseLayer& layer, const Bounds& x);

struct DenseGradientBounds {
  Bounds weights;  // [out, in]
  Bounds biases;   // [out]
};

// dy' x and the sum of dy over the samples. x: [B, in]; dy: [B, out].
DenseGradientBounds GradientBounds(const DenseLayer& layer, const Bounds& x, const Bounds& dy);

// dy W. dy: [B, out]; returns [B, in].
Bounds BelowBounds(const DenseLayer& layer, const Bounds& dy);

}  // namespace dslide::cli
