// One row of a wide layer against some samples of a batch: the forward and the backward pass.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_row.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cstddef>
#include <cstdint>

#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_subnormal.h"
#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

// Columns whose weights and gradients stay in registers: 2 * kBlock of 32 registers on AVX-512,
// of 16 on the others.
#if HWY_TARGET <= HWY_AVX3
inline constexpr size_t kBlock = 8;
#else
inline constexpr size_t kBlock = 4;
#endif

// Samples whose sums are taken together, see SumLanes4().
inline constexpr size_t kGroup = 4;

// The lane sums of four samples at once, each in the order of DotLanes().
struct GroupLanes {
  FloatVec even[kGroup];
  FloatVec odd[kGroup];
};

HWY_INLINE GroupLanes ZeroLanes() {
  GroupLanes lanes;
  for (size_t s = 0; s < kGroup; ++s) {
    lanes.even[s] = hn::Zero(FloatTag());
    lanes.odd[s] = hn::Zero(FloatTag());
  }
  return lanes;
}

HWY_INLINE void StoreLogits(const GroupLanes& lanes, float bias, float* logits) {
  const QuadVec sums =
      SumLanes4(hn::Add(lanes.even[0], lanes.odd[0]), hn::Add(lanes.even[1], lanes.odd[1]),
                hn::Add(lanes.even[2], lanes.odd[2]), hn::Add(lanes.even[3], lanes.odd[3]));
  hn::StoreU(hn::Add(hn::Set(QuadTag(), bias), sums), QuadTag(), logits);
}

// Logits of whole groups; returns the number of samples done. Inlined, so that a constant dim
// unrolls the loops and keeps the weights in registers where there are enough.
HWY_INLINE size_t GroupLogits(const float* HWY_RESTRICT weights, float bias,
                              const float* HWY_RESTRICT hidden, size_t dim, size_t stride,
                              const uint32_t* HWY_RESTRICT samples, size_t count,
                              float* HWY_RESTRICT logits) {
  const FloatTag d;
  size_t k = 0;
  for (; k + kGroup <= count; k += kGroup) {
    const float* h[kGroup];
    for (size_t s = 0; s < kGroup; ++s) h[s] = hidden + samples[k + s] * stride;
    GroupLanes lanes = ZeroLanes();
    size_t i = 0;
    for (; i + 2 * kLanes <= dim; i += 2 * kLanes) {
      const FloatVec w0 = hn::LoadU(d, weights + i);
      const FloatVec w1 = hn::LoadU(d, weights + i + kLanes);
      for (size_t s = 0; s < kGroup; ++s) {
        lanes.even[s] = hn::MulAdd(w0, hn::LoadU(d, h[s] + i), lanes.even[s]);
        lanes.odd[s] = hn::MulAdd(w1, hn::LoadU(d, h[s] + i + kLanes), lanes.odd[s]);
      }
    }
    if (i + kLanes <= dim) {
      const FloatVec w = hn::LoadU(d, weights + i);
      for (size_t s = 0; s < kGroup; ++s) {
        lanes.even[s] = hn::MulAdd(w, hn::LoadU(d, h[s] + i), lanes.even[s]);
      }
      i += kLanes;
    }
    if (i < dim) {
      const FloatVec w = LoadTail(weights + i, dim - i);
      for (size_t s = 0; s < kGroup; ++s) {
        lanes.odd[s] = hn::MulAdd(w, LoadTail(h[s] + i, dim - i), lanes.odd[s]);
      }
    }
    StoreLogits(lanes, bias, logits + k);
  }
  return k;
}

void RowLogitsImpl(const float* weights, float bias, const float* hidden, size_t dim, size_t stride,
                   const uint32_t* samples, size_t count, float* logits) {
  constexpr size_t kUsualDim = 128;
  size_t k = dim == kUsualDim
                 ? GroupLogits(weights, bias, hidden, kUsualDim, stride, samples, count, logits)
                 : GroupLogits(weights, bias, hidden, dim, stride, samples, count, logits);
  for (; k < count; ++k) {
    logits[k] = bias + SumLanes(DotLanes(weights, hidden + samples[k] * stride, dim));
  }
}

// kVectors * kLanes columns of a row: the weights and the gradient so far, in registers. A chain of
// members, because compilers put arrays of vectors into memory.
template <size_t kVectors>
struct Columns {
  FloatVec weight, sum;
  Columns<kVectors - 1> rest;

  HWY_INLINE explicit Columns(const float* weights)
      : weight(hn::LoadU(FloatTag(), weights)), sum(hn::Zero(FloatTag())), rest(weights + kLanes) {}

  HWY_INLINE void AddSample(FloatVec factor, const float* HWY_RESTRICT hidden,
                            float* HWY_RESTRICT hidden_grad) {
    const FloatTag d;
    sum = hn::MulAdd(factor, hn::LoadU(d, hidden), sum);
    hn::StoreU(hn::MulAdd(factor, weight, hn::LoadU(d, hidden_grad)), d, hidden_grad);
    rest.AddSample(factor, hidden + kLanes, hidden_grad + kLanes);
  }

  HWY_INLINE void StoreSums(float* row_grad) const {
    hn::StoreU(sum, FloatTag(), row_grad);
    rest.StoreSums(row_grad + kLanes);
  }
};

template <>
struct Columns<0> {
  HWY_INLINE explicit Columns(const float* /*weights*/) {}
  HWY_INLINE void AddSample(FloatVec, const float*, float*) {}
  HWY_INLINE void StoreSums(float*) const {}
};

// Gradients in kVectors * kLanes columns; all pointers are at the first of them. Not inlined: the
// caller's column would cost two more instructions for each vector.
template <size_t kVectors>
HWY_NOINLINE void BlockGradients(const float* HWY_RESTRICT weights,
                                 const float* HWY_RESTRICT hidden, size_t stride,
                                 const uint32_t* HWY_RESTRICT samples, size_t count,
                                 const float* HWY_RESTRICT g, float* HWY_RESTRICT row_grad,
                                 float* HWY_RESTRICT hidden_grad) {
  Columns<kVectors> columns(weights);
  for (size_t k = 0; k < count; ++k) {
    const size_t at = samples[k] * stride;
    columns.AddSample(hn::Set(FloatTag(), g[k]), hidden + at, hidden_grad + at);
  }
  columns.StoreSums(row_grad);
}

// Gradients in the last n < kLanes columns.
HWY_INLINE void TailGradients(const float* HWY_RESTRICT weights, const float* HWY_RESTRICT hidden,
                              size_t n, size_t stride, const uint32_t* HWY_RESTRICT samples,
                              size_t count, const float* HWY_RESTRICT g,
                              float* HWY_RESTRICT row_grad, float* HWY_RESTRICT hidden_grad) {
  const FloatTag d;
  const FloatVec w = LoadTail(weights, n);
  FloatVec sum = hn::Zero(d);
  for (size_t k = 0; k < count; ++k) {
    const FloatVec factor = hn::Set(d, g[k]);
    sum = hn::MulAdd(factor, LoadTail(hidden + samples[k] * stride, n), sum);
    float* const out = hidden_grad + samples[k] * stride;
    StoreTail(hn::MulAdd(factor, w, LoadTail(out, n)), out, n);
  }
  StoreTail(sum, row_grad, n);
}

float RowGradientsImpl(const float* weights, const float* hidden, size_t dim, size_t stride,
                       const uint32_t* samples, size_t count, const float* g, float* row_grad,
                       float* hidden_grad) {
  if (count == 0) {  // hidden_grad may be null
    for (size_t i = 0; i < dim; ++i) row_grad[i] = 0.0f;
    return 0.0f;
  }
  size_t i = 0;
  for (; i + kBlock * kLanes <= dim; i += kBlock * kLanes) {
    BlockGradients<kBlock>(weights + i, hidden + i, stride, samples, count, g, row_grad + i,
                           hidden_grad + i);
  }
  for (; i + kLanes <= dim; i += kLanes) {
    BlockGradients<1>(weights + i, hidden + i, stride, samples, count, g, row_grad + i,
                      hidden_grad + i);
  }
  if (i < dim) {
    TailGradients(weights + i, hidden + i, dim - i, stride, samples, count, g, row_grad + i,
                  hidden_grad + i);
  }
  float bias_grad = 0.0f;
  for (size_t k = 0; k < count; ++k) bias_grad += g[k];
  return bias_grad;
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(RowLogitsImpl);
HWY_EXPORT(RowGradientsImpl);

void RowLogits(const float* weights, float bias, const float* hidden, int64_t dim, int64_t stride,
               absl::Span<const uint32_t> samples, float* logits) {
  DSLIDE_DISPATCH(RowLogitsImpl)
  (weights, bias, hidden, static_cast<size_t>(dim), static_cast<size_t>(stride), samples.data(),
   samples.size(), logits);
}

float RowGradients(const float* weights, const float* hidden, int64_t dim, int64_t stride,
                   absl::Span<const uint32_t> samples, const float* g, float* row_grad,
                   float* hidden_grad) {
  const SubnormalsAsZero mode;
  return DSLIDE_DISPATCH(RowGradientsImpl)(weights, hidden, static_cast<size_t>(dim),
                                           static_cast<size_t>(stride), samples.data(),
                                           samples.size(), g, row_grad, hidden_grad);
}

}  // namespace dslide
#endif  // HWY_ONCE
