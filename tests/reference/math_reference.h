// What the vector kernels mean, in plain loops and double precision.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/bfloat16.h"

namespace dslide::reference {

// sum_i a[i] * b[i] and, for tolerances, sum_i |a[i] * b[i]|. Requires equal sizes.
struct DotResult {
  double sum = 0.0;
  double absolute_sum = 0.0;
};
DotResult Dot(absl::Span<const float> a, absl::Span<const float> b);

// Gradients of one row, as RowGradients() of core/engine/math/kernels.h.
//   hidden : [rows, stride], the first weights.size() columns of a row are used
struct RowGradientsResult {
  std::vector<double> row_grad;               // [dim]
  std::vector<double> row_grad_magnitude;     // [dim], the sum of the absolute terms
  std::vector<double> hidden_grad;            // [rows, stride], the input plus the change
  std::vector<double> hidden_grad_magnitude;  // [rows, stride], likewise of absolute terms
  double bias_grad = 0.0;
};
RowGradientsResult RowGradients(absl::Span<const float> weights, absl::Span<const float> hidden,
                                int64_t stride, absl::Span<const uint32_t> samples,
                                absl::Span<const float> g, absl::Span<const float> hidden_grad);

// exp(min(x, 88)).
double ClampedExp(float x);

// Nearest bfloat16, ties to the even one, found by comparing both neighbours.
BFloat16 ToBFloat16(float value);

// bfloat16 bits of a stochastic rounding: of the two neighbours the one away from 0 when the part
// of their distance that is cut off, in 65536ths, and `random` add up to 65536 or more.
uint16_t RoundStochastically(float value, uint32_t random);
// The random bits of element `i` for the key (a, b), in 64-bit arithmetic.
uint32_t RoundingBits(uint64_t a, uint64_t b, int64_t i);

// Walsh-Hadamard transform of one vector by its definition: y[i] = sum_j (-1)^popcount(i & j) x[j].
std::vector<double> Hadamard(absl::Span<const float> x);

// The same by butterflies of distance 1, 2, 4, ... in f32: the bits every implementation must have.
std::vector<float> HadamardButterflies(absl::Span<const float> x);

}  // namespace dslide::reference
