// Element-wise updates in place: sums of vectors and the arithmetic of the optimizers.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_update.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_subnormal.h"
#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

// Floats that start at any byte: no float's address, so no pointer to one.
struct FloatBytes {
  const char* bytes;
  HWY_INLINE FloatBytes operator+(size_t i) const { return {bytes + i * sizeof(float)}; }
};

// Moves vectors between memory and registers. FullVector moves whole ones, PartialVector the last
// n < kLanes elements: each update below is written once for both.
struct FullVector {
  HWY_INLINE FloatVec Load(const float* p) const { return hn::LoadU(FloatTag(), p); }
  HWY_INLINE FloatVec Load(FloatBytes p) const {
    const hn::Repartition<uint8_t, FloatTag> d;
    return hn::BitCast(FloatTag(), hn::LoadU(d, reinterpret_cast<const uint8_t*>(p.bytes)));
  }
  HWY_INLINE void Store(FloatVec v, float* p) const { hn::StoreU(v, FloatTag(), p); }
};
struct PartialVector {
  size_t n;
  HWY_INLINE FloatVec Load(const float* p) const { return LoadTail(p, n); }
  HWY_INLINE FloatVec Load(FloatBytes p) const {
    HWY_ALIGN float lanes[kLanes] = {};
    std::memcpy(lanes, p.bytes, n * sizeof(float));
    return hn::Load(FloatTag(), lanes);
  }
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

template <typename Floats>
struct AddStep {
  Floats x;
  float* y;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i) const {
    at.Store(hn::Add(at.Load(x + i), at.Load(y + i)), y + i);
  }
};

using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;

// The largest magnitudes that an update has seen, lane by lane, as bits: they order like the
// numbers, and infinity and NaN come after all of those. Cheaper than a comparison each, whose
// masks would have to be collected.
struct Largest {
  IntVec weight;  // of gradients and new weights
  IntVec state;   // of new states

  static HWY_INLINE IntVec Magnitude(FloatVec x) {
    return hn::And(hn::BitCast(IntTag(), x), hn::Set(IntTag(), 0x7fffffff));
  }
  HWY_INLINE void SeeWeight(FloatVec x) { weight = hn::Max(weight, Magnitude(x)); }
  HWY_INLINE void SeeState(FloatVec x) { state = hn::Max(state, Magnitude(x)); }
  // False for a NaN bound.
  HWY_INLINE bool IsWithin(float bound) const {
    const FloatTag d;
    return hn::AllTrue(d, hn::Le(hn::BitCast(d, weight), hn::Set(d, bound))) &&
           hn::AllTrue(d, hn::Le(hn::BitCast(d, state), hn::Set(d, FLT_MAX)));
  }
};

struct SgdStep {
  FloatVec rate, keep;
  const float* g;
  VectorUpdate w;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i, Largest& largest) const {
    const FloatVec gradient = at.Load(g + i);
    const FloatVec weight = hn::NegMulAdd(rate, gradient, hn::Mul(keep, at.Load(w.from + i)));
    at.Store(weight, w.to + i);
    largest.SeeWeight(gradient);
    largest.SeeWeight(weight);
  }
};

struct AdagradStep {
  FloatVec rate, epsilon, keep;
  const float* g;
  VectorUpdate w, a;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i, Largest& largest) const {
    const FloatVec gradient = at.Load(g + i);
    const FloatVec squares = hn::MulAdd(gradient, gradient, at.Load(a.from + i));
    at.Store(squares, a.to + i);
    const FloatVec change = hn::Div(gradient, hn::Add(hn::Sqrt(squares), epsilon));
    const FloatVec weight = hn::NegMulAdd(rate, change, hn::Mul(keep, at.Load(w.from + i)));
    at.Store(weight, w.to + i);
    largest.SeeWeight(gradient);
    largest.SeeWeight(weight);
    largest.SeeState(squares);
  }
};

struct AdamStep {
  FloatVec decay1, decay2, blend1, blend2, rate, inverse2, epsilon, keep;
  const float* g;
  VectorUpdate w, m, v;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i, Largest& largest) const {
    const FloatVec gradient = at.Load(g + i);
    const FloatVec first = hn::MulAdd(decay1, at.Load(m.from + i), hn::Mul(blend1, gradient));
    const FloatVec second =
        hn::MulAdd(decay2, at.Load(v.from + i), hn::Mul(hn::Mul(blend2, gradient), gradient));
    at.Store(first, m.to + i);
    at.Store(second, v.to + i);
    const FloatVec scale = hn::Add(hn::Sqrt(hn::Mul(second, inverse2)), epsilon);
    const FloatVec kept = hn::Mul(keep, at.Load(w.from + i));
    const FloatVec weight = hn::NegMulAdd(rate, hn::Div(first, scale), kept);
    at.Store(weight, w.to + i);
    largest.SeeWeight(gradient);
    largest.SeeWeight(weight);
    largest.SeeState(second);
    // A first moment that is not finite would have made a weight that is not.
  }
};

struct AverageLagStep {
  FloatVec keep, blend;
  VectorUpdate lag;
  const float* before;
  const float* after;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i) const {
    const FloatVec move = hn::Sub(at.Load(before + i), at.Load(after + i));
    at.Store(hn::MulAdd(keep, at.Load(lag.from + i), hn::Mul(blend, move)), lag.to + i);
  }
};

void AxpyImpl(float alpha, const float* x, float* y, size_t n) {
  ForEachVector(n, AxpyStep{hn::Set(FloatTag(), alpha), x, y});
}

void AddToImpl(const float* x, float* y, size_t n) {
  ForEachVector(n, AddStep<const float*>{x, y});
}

// Looks at the sums and stores none.
struct TrialSum {
  FloatBytes x;
  const float* y;
  template <typename Access>
  HWY_INLINE void operator()(Access at, size_t i, Largest& largest) const {
    largest.SeeWeight(hn::Add(at.Load(x + i), at.Load(y + i)));
  }
};

// Runs a step over n elements; true when all is good. Lanes beyond a partial vector hold zeros
// throughout, which are.
template <typename Update>
HWY_INLINE bool AllGood(size_t n, float bound, const Update& update) {
  Largest largest{hn::Zero(IntTag()), hn::Zero(IntTag())};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) update(FullVector{}, i, largest);
  if (i < n) update(PartialVector{n - i}, i, largest);
  return largest.IsWithin(bound);
}

bool AddWithinImpl(const char* x, float* y, size_t n, float bound) {
  // Twice over a row that is in the nearest cache then: cheaper than to keep the sums somewhere.
  if (!AllGood(n, bound, TrialSum{{x}, y})) return false;
  ForEachVector(n, AddStep<FloatBytes>{{x}, y});
  return true;
}

bool SgdUpdateImpl(VectorUpdate w, const float* g, size_t n, float rate, float keep, float bound) {
  const FloatTag d;
  return AllGood(n, bound, SgdStep{hn::Set(d, rate), hn::Set(d, keep), g, w});
}

bool AdagradUpdateImpl(VectorUpdate w, VectorUpdate a, const float* g, size_t n, float rate,
                       float epsilon, float keep, float bound) {
  const FloatTag d;
  return AllGood(n, bound,
                 AdagradStep{hn::Set(d, rate), hn::Set(d, epsilon), hn::Set(d, keep), g, w, a});
}

bool AdamUpdateImpl(VectorUpdate w, VectorUpdate m, VectorUpdate v, const float* g, size_t n,
                    const AdamFactors& f, float bound) {
  const FloatTag d;
  return AllGood(n, bound,
                 AdamStep{hn::Set(d, f.decay1), hn::Set(d, f.decay2), hn::Set(d, f.blend1),
                          hn::Set(d, f.blend2), hn::Set(d, f.rate), hn::Set(d, f.inverse2),
                          hn::Set(d, f.epsilon), hn::Set(d, f.keep), g, w, m, v});
}

void AverageLagUpdateImpl(VectorUpdate lag, const float* before, const float* after, size_t n,
                          float keep, float blend) {
  const FloatTag d;
  ForEachVector(n, AverageLagStep{hn::Set(d, keep), hn::Set(d, blend), lag, before, after});
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {
namespace {

// Infinity is never within a bound, not even an infinite one. A NaN bound admits nothing.
float FiniteBound(float bound) { return bound > FLT_MAX ? FLT_MAX : bound; }

}  // namespace

HWY_EXPORT(AxpyImpl);
HWY_EXPORT(AddToImpl);
HWY_EXPORT(AddWithinImpl);
HWY_EXPORT(SgdUpdateImpl);
HWY_EXPORT(AdagradUpdateImpl);
HWY_EXPORT(AdamUpdateImpl);
HWY_EXPORT(AverageLagUpdateImpl);

void Axpy(float alpha, const float* x, float* y, int64_t n) {
  DSLIDE_DISPATCH(AxpyImpl)(alpha, x, y, static_cast<size_t>(n));
}

void AddTo(const float* x, float* y, int64_t n) {
  DSLIDE_DISPATCH(AddToImpl)(x, y, static_cast<size_t>(n));
}

bool AddWithin(const char* x, float* y, int64_t n, float bound) {
  return DSLIDE_DISPATCH(AddWithinImpl)(x, y, static_cast<size_t>(n), FiniteBound(bound));
}

bool SgdUpdate(VectorUpdate w, const float* g, int64_t n, float rate, float keep, float bound) {
  const SubnormalsAsZero mode;
  return DSLIDE_DISPATCH(SgdUpdateImpl)(w, g, static_cast<size_t>(n), rate, keep,
                                        FiniteBound(bound));
}

bool AdagradUpdate(VectorUpdate w, VectorUpdate a, const float* g, int64_t n, float rate,
                   float epsilon, float keep, float bound) {
  const SubnormalsAsZero mode;
  return DSLIDE_DISPATCH(AdagradUpdateImpl)(w, a, g, static_cast<size_t>(n), rate, epsilon, keep,
                                            FiniteBound(bound));
}

bool AdamUpdate(VectorUpdate w, VectorUpdate m, VectorUpdate v, const float* g, int64_t n,
                const AdamFactors& factors, float bound) {
  const SubnormalsAsZero mode;
  return DSLIDE_DISPATCH(AdamUpdateImpl)(w, m, v, g, static_cast<size_t>(n), factors,
                                         FiniteBound(bound));
}

void AverageLagUpdate(VectorUpdate lag, const float* before, const float* after, int64_t n,
                      float keep, float blend) {
  const SubnormalsAsZero mode;
  DSLIDE_DISPATCH(AverageLagUpdateImpl)(lag, before, after, static_cast<size_t>(n), keep, blend);
}

}  // namespace dslide
#endif  // HWY_ONCE
