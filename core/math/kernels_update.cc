// Element-wise updates in place: sums of vectors and the arithmetic of the optimizers.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/math/kernels_update.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cstddef>

#include "core/math/kernels.h"
#include "core/math/kernels_subnormal.h"
#include "core/math/kernels_target.h"
#include "core/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

// Moves vectors between memory and registers. FullVector moves whole ones, PartialVector the last
// n < kLanes elements: each update below is written once for both.
struct FullVector {
  HWY_INLINE FloatVec Load(const float* p) const { return hn::LoadU(FloatTag(), p); }
  HWY_INLINE void Store(FloatVec v, float* p) const { hn::StoreU(v, FloatTag(), p); }
};
struct PartialVector {
  size_t n;
  HWY_INLINE FloatVec Load(const float* p) const { return LoadTail(p, n); }
  HWY_INLINE void Store(FloatVec v, float* p) const { StoreTail(v, p, n); }
};

// Calls update(access, offset) for each vector of n elements.
template <typename Update>
HWY_INLINE void ForEachVector(size_t n, const Update& update) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) update(FullVector{}, i);
  if (i < n) update(PartialVector{n - i}, i);
}

struct AxpyStep {
  FloatVec alpha;
  const float* x;
  float* y;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i) const {
    at.Store(hn::MulAdd(alpha, at.Load(x + i), at.Load(y + i)), y + i);
  }
};

struct AddStep {
  const float* x;
  float* y;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i) const {
    at.Store(hn::Add(at.Load(x + i), at.Load(y + i)), y + i);
  }
};

struct SgdStep {
  FloatVec rate, keep;
  const float* g;
  float* w;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i) const {
    const FloatVec kept = hn::Mul(keep, at.Load(w + i));
    at.Store(hn::NegMulAdd(rate, at.Load(g + i), kept), w + i);
  }
};

struct AdagradStep {
  FloatVec rate, epsilon, keep;
  const float* g;
  float* w;
  float* a;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i) const {
    const FloatVec gradient = at.Load(g + i);
    const FloatVec squares = hn::MulAdd(gradient, gradient, at.Load(a + i));
    at.Store(squares, a + i);
    const FloatVec change = hn::Div(gradient, hn::Add(hn::Sqrt(squares), epsilon));
    at.Store(hn::NegMulAdd(rate, change, hn::Mul(keep, at.Load(w + i))), w + i);
  }
};

struct AdamStep {
  FloatVec decay1, decay2, blend1, blend2;
  FloatVec rate;      // over correction1
  FloatVec inverse2;  // of correction2
  FloatVec epsilon, keep;
  const float* g;
  float* w;
  float* m;
  float* v;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i) const {
    const FloatVec gradient = at.Load(g + i);
    const FloatVec first = hn::MulAdd(decay1, at.Load(m + i), hn::Mul(blend1, gradient));
    const FloatVec second =
        hn::MulAdd(decay2, at.Load(v + i), hn::Mul(hn::Mul(blend2, gradient), gradient));
    at.Store(first, m + i);
    at.Store(second, v + i);
    const FloatVec scale = hn::Add(hn::Sqrt(hn::Mul(second, inverse2)), epsilon);
    const FloatVec kept = hn::Mul(keep, at.Load(w + i));
    at.Store(hn::NegMulAdd(rate, hn::Div(first, scale), kept), w + i);
  }
};

void AxpyImpl(float alpha, const float* x, float* y, size_t n) {
  ForEachVector(n, AxpyStep{hn::Set(FloatTag(), alpha), x, y});
}

void AddToImpl(const float* x, float* y, size_t n) { ForEachVector(n, AddStep{x, y}); }

void SgdUpdateImpl(float* w, const float* g, size_t n, float rate, float keep) {
  const FloatTag d;
  ForEachVector(n, SgdStep{hn::Set(d, rate), hn::Set(d, keep), g, w});
}

void AdagradUpdateImpl(float* w, float* a, const float* g, size_t n, float rate, float epsilon,
                       float keep) {
  const FloatTag d;
  ForEachVector(n, AdagradStep{hn::Set(d, rate), hn::Set(d, epsilon), hn::Set(d, keep), g, w, a});
}

void AdamUpdateImpl(float* w, float* m, float* v, const float* g, size_t n,
                    const AdamFactors& factors) {
  const FloatTag d;
  ForEachVector(n, AdamStep{hn::Set(d, factors.decay1), hn::Set(d, factors.decay2),
                            hn::Set(d, factors.blend1), hn::Set(d, factors.blend2),
                            hn::Set(d, factors.rate / factors.correction1),
                            hn::Set(d, 1.0f / factors.correction2), hn::Set(d, factors.epsilon),
                            hn::Set(d, factors.keep), g, w, m, v});
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(AxpyImpl);
HWY_EXPORT(AddToImpl);
HWY_EXPORT(SgdUpdateImpl);
HWY_EXPORT(AdagradUpdateImpl);
HWY_EXPORT(AdamUpdateImpl);

void Axpy(float alpha, const float* x, float* y, int64_t n) {
  DSLIDE_DISPATCH(AxpyImpl)(alpha, x, y, static_cast<size_t>(n));
}

void AddTo(const float* x, float* y, int64_t n) {
  DSLIDE_DISPATCH(AddToImpl)(x, y, static_cast<size_t>(n));
}

void SgdUpdate(float* w, const float* g, int64_t n, float rate, float keep) {
  const SubnormalsAsZero mode;
  DSLIDE_DISPATCH(SgdUpdateImpl)(w, g, static_cast<size_t>(n), rate, keep);
}

void AdagradUpdate(float* w, float* a, const float* g, int64_t n, float rate, float epsilon,
                   float keep) {
  const SubnormalsAsZero mode;
  DSLIDE_DISPATCH(AdagradUpdateImpl)(w, a, g, static_cast<size_t>(n), rate, epsilon, keep);
}

void AdamUpdate(float* w, float* m, float* v, const float* g, int64_t n,
                const AdamFactors& factors) {
  const SubnormalsAsZero mode;
  DSLIDE_DISPATCH(AdamUpdateImpl)(w, m, v, g, static_cast<size_t>(n), factors);
}

}  // namespace dslide
#endif  // HWY_ONCE
