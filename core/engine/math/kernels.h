// Vector kernels: one contract, several instruction sets, chosen once at start-up.
//
// Written with Highway: each kernel has one source, compiled for every target that the CPU may have
// and dispatched at run time. Results are equal for equal inputs on one CPU, at any address;
// between instruction sets they differ within the stated error. Arrays need no alignment unless a
// line says so, and do not overlap unless a line says so. Thread safety: pure functions. u = 2^-24.
//
// Subnormal numbers cost a processor over a hundred cycles each, and small gradients are full of
// them: SumOfSquares, RowGradients, ExpShifted, the optimizer updates and AverageLagUpdate read
// them as 0 and write 0 in their place, an absolute error of at most 2^-126 for each term.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/bfloat16.h"
#include "core/base/stochastic_rounding.h"

namespace dslide {

// The instruction set in use: "AVX3", "AVX2", "SSE4", ... as Highway names it.
absl::string_view KernelTarget();

// The environment variable DSLIDE_MAX_ISA (sse4, avx2 or avx512) forbids wider instruction sets. It
// is read once, before the first kernel runs; a value of no meaning is ignored there and told here.
// Errors: InvalidArgument.
absl::Status CheckKernelEnvironment();

// Returns sum_i a[i] * b[i]. a, b: [n]. Absolute error <= 2 n u * sum |a b|, plus 2^-149
// for each product that underflows.
float Dot(const float* a, const float* b, int64_t n);

// Returns sum_i a[i]^2. Relative error <= 2 n u.
float SumOfSquares(const float* a, int64_t n);

// y[i] += alpha * x[i]. x, y: [n].
void Axpy(float alpha, const float* x, float* y, int64_t n);

// y[i] += x[i]. x, y: [n].
void AddTo(const float* x, float* y, int64_t n);

// y[i] += x[i] where all the sums are within the bound, as AllWithin() says; otherwise nothing is
// changed. Returns whether. x: n floats that start at any byte; y: [n].
bool AddWithin(const char* x, float* y, int64_t n, float bound);

// True when every |x[i]| <= bound; NaN and infinity make it false. x: [n].
bool AllWithin(const float* x, int64_t n, float bound);

// The largest |x[i]| of n floats that start at any byte; 0 for none. Infinity when one is infinite,
// and NaN when one is NaN.
float MaxMagnitude(const char* x, int64_t n);

// Logits of one row for some samples of a batch.
//   weights : [dim]                  hidden : [*, stride], stride >= dim
//   samples : positions in hidden    logits : [samples.size()], written
// logits[k] = bias + <weights, hidden[samples[k]]>, each as Dot().
void RowLogits(const float* weights, float bias, const float* hidden, int64_t dim, int64_t stride,
               absl::Span<const uint32_t> samples, float* logits);

// Gradients of one row for some samples of a batch.
//   g        : [samples.size()], the loss's derivative by each logit
//   row_grad : [dim], overwritten with sum_k g[k] * hidden[samples[k]], in sample order
//   hidden_grad : [*, stride]; hidden_grad[samples[k]] += g[k] * weights
// Returns sum_k g[k]: the bias's gradient.
float RowGradients(const float* weights, const float* hidden, int64_t dim, int64_t stride,
                   absl::Span<const uint32_t> samples, const float* g, float* row_grad,
                   float* hidden_grad);

// x[i] = exp(d) for the rounded d = x[i] - shift, at most 88; NaN stays NaN. Relative error
// <= 2^-20.
void ExpShifted(float* x, int64_t n, float shift);

// Rounds to nearest even. in: [n], out: [n].
void FloatsToBFloat16(const float* in, int64_t n, BFloat16* out);
void BFloat16ToFloats(const BFloat16* in, int64_t n, float* out);

// out[i] = RoundStochastically(in[i], RoundingBits(key, i)): equal bits on every instruction set.
// Returns the largest |out[i]|, 0 for none; infinity or NaN when there is one. in, out: [n].
float RoundToBFloat16(const float* in, int64_t n, RoundingKey key, BFloat16* out);

// A vector before and after an update. They may be the same array, or apart.
struct VectorUpdate {
  const float* from;
  float* to;
};

// One optimizer update of the vectors of a row; w, m, v, a, g: [n]. All rates are already
// scheduled. Writes all new values and returns true when every |g[i]| and every new |w[i]| is
// within `bound` and every new state finite: with `to` apart from `from`, a caller can then drop a
// bad update without having saved anything.
//
// w = keep * w - rate * g (decoupled weight decay; keep is 1 for none).
bool SgdUpdate(VectorUpdate w, const float* g, int64_t n, float rate, float keep, float bound);
// a += g^2; w = keep * w - rate * g / (sqrt(a) + epsilon).
bool AdagradUpdate(VectorUpdate w, VectorUpdate a, const float* g, int64_t n, float rate,
                   float epsilon, float keep, float bound);
// Lazy Adam. With decay1 = beta1^(missed + 1) and decay2 = beta2^(missed + 1):
//   m = decay1 * m + (1 - beta1) * g;  v = decay2 * v + (1 - beta2) * g^2
//   w = keep * w - rate / (1 - beta1^step) * m / (sqrt(v / (1 - beta2^step)) + epsilon)
struct AdamFactors {
  float decay1, decay2;  // what is left of the old moments
  float blend1, blend2;  // 1 - beta1, 1 - beta2
  float rate;            // over 1 - beta1^step
  float inverse2;        // 1 / (1 - beta2^step)
  float epsilon, keep;
};
bool AdamUpdate(VectorUpdate w, VectorUpdate m, VectorUpdate v, const float* g, int64_t n,
                const AdamFactors& factors, float bound);

// How far an average lies from the weights, when the weights move from `before` to `after`:
// lag = keep * lag + blend * (before - after). All: [n].
void AverageLagUpdate(VectorUpdate lag, const float* before, const float* after, int64_t n,
                      float keep, float blend);

// Vectors side by side in the columns of one block, so that one butterfly serves all of them.
inline constexpr int64_t kHadamardLanes = 16;
// out[i][lane] = vectors[lane][i].
//   vectors : [kHadamardLanes, n]    out : [n, kHadamardLanes], 64-byte aligned
void TransposeToLanes(const float* vectors, int64_t n, float* out);

// out = H D in for kHadamardLanes vectors of n floats: D the signs, H the unnormalised
// Walsh-Hadamard matrix.
//   in, out : [n, kHadamardLanes], 64-byte aligned; n a power of two, at least 16; may be the same
//   signs   : [n] of +1 or -1
// Butterflies of distance 1, 2, 4, ... n/2 in this order, (a, b) -> (a + b, a - b): equal bits on
// every instruction set and in every language.
void SignedHadamardLanes(const float* in, const float* signs, float* out, int64_t n);

// What turns a projection into a code: y * scale + extra_signs[0] * extras[0] + extra_signs[1] *
// extras[1], added from left to right, never fused.
struct SignBitsInput {
  float scale;
  const float* extra_signs[2];  // [count] each
  const float* extras[2];       // [kHadamardLanes] each, 64-byte aligned
};
// Sets bit first + i of bits[lane] where the i-th projection of that lane is not negative.
//   y    : [count, kHadamardLanes], 64-byte aligned; first + count <= 32
//   bits : [kHadamardLanes], 64-byte aligned; other bits stay
// Equal bits on every instruction set.
void SignBitsLanes(const float* y, const SignBitsInput& input, int64_t first, int64_t count,
                   uint32_t* bits);

// out[i] = x[i] - mean[i]; returns the sum of out[i]^2 in one order: running sums of every 16th
// element, added one after the other. x, mean, out: [n]. Equal bits on every instruction set.
inline constexpr int64_t kCenterLanes = 16;
float CenterRow(const float* x, const float* mean, float* out, int64_t n);

// Keeps the ids with the largest counts, in their order: those with counts[i] > bound go to
// `above`, those with counts[i] == bound to `equal`. ids, counts: [n]; above, equal: room for n,
// all of which may be overwritten. Returns how many went to each.
struct SplitSizes {
  int64_t above, equal;
};
SplitSizes SplitByCount(const uint32_t* ids, const uint16_t* counts, int64_t n, uint16_t bound,
                        uint32_t* above, uint32_t* equal);
SplitSizes SplitByCount(const uint32_t* ids, const uint8_t* counts, int64_t n, uint8_t bound,
                        uint32_t* above, uint32_t* equal);

// Leaves out the numbers whose bits are all 0: bit i (bit_rows.h) says whether x[i] stays.
// x: [n]; bits: [BytesOfBits(n)]; packed: room for n, all of which may be overwritten. Returns how
// many stay.
int64_t PackNonzero(const float* x, int64_t n, uint8_t* bits, float* packed);
// The inverse. Reads as many of `packed` as it returns. Bits from n on are ignored.
int64_t UnpackNonzero(const float* packed, const uint8_t* bits, int64_t n, float* x);

// sums[i] += x[i]. x, sums: [n]. Equal bits on every instruction set.
void AddToDoubles(const float* x, double* sums, int64_t n);

}  // namespace dslide
