// Dual coordinate descent of several rows.

#include "core/engine/math/kernels_dual.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_dual.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

using FloatMask = hn::Mask<FloatTag>;

// Vectors of a line.
inline constexpr size_t kVectors = kDualRows / kLanes;
// While this sample is worked on, the columns of one so much later are fetched.
inline constexpr int64_t kFetchedAhead = 2;

HWY_INLINE FloatVec LoadLanes(const DualLine& line, size_t vector) {
  return hn::Load(FloatTag(), line.of + vector * kLanes);
}
HWY_INLINE void StoreLanes(FloatVec lanes, size_t vector, DualLine& line) {
  hn::Store(lanes, FloatTag(), line.of + vector * kLanes);
}

HWY_INLINE FloatMask LanesOf(uint32_t rows, size_t vector) {
  const uint64_t bits = rows >> (vector * kLanes);
  uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof(bits));
  return hn::LoadMaskBits(FloatTag(), bytes);
}
HWY_INLINE uint32_t RowsOf(FloatMask lanes, size_t vector) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(FloatTag(), lanes, bytes);
  uint32_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits << (vector * kLanes);
}

// The scores of a sample without the bias: the even and the odd features are summed apart, in their
// order.
HWY_INLINE void Scores(const DualSample& sample, const DualLine* weights, FloatVec* scores) {
  const FloatTag d;
  FloatVec odd[kVectors];
  for (size_t v = 0; v < kVectors; ++v) scores[v] = odd[v] = hn::Zero(d);
  uint32_t i = 0;
  for (; i + 2 <= sample.size; i += 2) {
    const FloatVec first = hn::Set(d, ToFloat(sample.values[i]));
    const FloatVec second = hn::Set(d, ToFloat(sample.values[i + 1]));
    const DualLine& first_line = weights[sample.columns[i]];
    const DualLine& second_line = weights[sample.columns[i + 1]];
    for (size_t v = 0; v < kVectors; ++v) {
      scores[v] = hn::Add(scores[v], hn::Mul(first, LoadLanes(first_line, v)));
      odd[v] = hn::Add(odd[v], hn::Mul(second, LoadLanes(second_line, v)));
    }
  }
  if (i < sample.size) {
    const FloatVec last = hn::Set(d, ToFloat(sample.values[i]));
    for (size_t v = 0; v < kVectors; ++v) {
      scores[v] = hn::Add(scores[v], hn::Mul(last, LoadLanes(weights[sample.columns[i]], v)));
    }
  }
  for (size_t v = 0; v < kVectors; ++v) scores[v] = hn::Add(scores[v], odd[v]);
}

HWY_INLINE void AddSteps(const DualSample& sample, const FloatVec* steps, DualLine* weights) {
  for (uint32_t i = 0; i < sample.size; ++i) {
    const FloatVec value = hn::Set(FloatTag(), ToFloat(sample.values[i]));
    DualLine& line = weights[sample.columns[i]];
    for (size_t v = 0; v < kVectors; ++v) {
      StoreLanes(hn::Add(LoadLanes(line, v), hn::Mul(steps[v], value)), v, line);
    }
  }
}

void DualPassImpl(const DualSample* samples, const uint32_t* order, int64_t count, DualRowSet live,
                  DualSettings settings, const DualRows& rows, DualLine* largest) {
  const FloatTag d;
  const FloatVec zero = hn::Zero(d);
  const FloatVec one = hn::Set(d, 1.0f);
  const FloatVec diagonal = hn::Set(d, settings.diagonal);
  const FloatVec shrink_above = hn::Set(d, settings.shrink_above);
  FloatVec greatest[kVectors];
  FloatVec bias[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    greatest[v] = zero;
    bias[v] = LoadLanes(*rows.bias, v);
  }
  for (int64_t n = 0; n < count; ++n) {
    const uint32_t at = order[n];
    if (n + kFetchedAhead < count) {
      const uint32_t later = order[n + kFetchedAhead];
      __builtin_prefetch(&rows.alphas[later]);
      __builtin_prefetch(samples[later].columns);
      __builtin_prefetch(samples[later].values);
    }
    const uint32_t looking = rows.active[at] & live;
    if (looking == 0) continue;
    const DualSample& sample = samples[at];
    const FloatVec curvature = hn::Set(d, sample.curvature);
    FloatVec scores[kVectors];
    Scores(sample, rows.weights, scores);
    FloatVec steps[kVectors];
    uint32_t moved = 0;
    uint32_t shrunk = 0;
    for (size_t v = 0; v < kVectors; ++v) {
      const FloatMask lanes = LanesOf(looking, v);
      const FloatVec margin = hn::Add(bias[v], scores[v]);
      const FloatMask positive = LanesOf(rows.positive[at], v);
      const FloatVec alpha = LoadLanes(rows.alphas[at], v);
      const FloatVec gradient =
          hn::Add(hn::Sub(hn::IfThenElse(positive, margin, hn::Neg(margin)), one),
                  hn::Mul(diagonal, alpha));
      const FloatVec moved_to = hn::Max(hn::Sub(alpha, hn::Div(gradient, curvature)), zero);
      const FloatVec step = hn::IfThenElseZero(lanes, hn::Sub(moved_to, alpha));
      StoreLanes(hn::IfThenElse(lanes, moved_to, alpha), v, rows.alphas[at]);
      greatest[v] = hn::Max(greatest[v], hn::Mul(hn::Abs(step), curvature));
      moved |= RowsOf(hn::Ne(step, zero), v);
      shrunk |= RowsOf(hn::And(hn::Eq(alpha, zero), hn::Gt(gradient, shrink_above)), v);
      steps[v] = hn::IfThenElse(positive, step, hn::Neg(step));
    }
    rows.active[at] = static_cast<DualRowSet>(rows.active[at] & ~(shrunk & looking));
    if (moved == 0) continue;
    AddSteps(sample, steps, rows.weights);
    for (size_t v = 0; v < kVectors; ++v) bias[v] = hn::Add(bias[v], steps[v]);
  }
  for (size_t v = 0; v < kVectors; ++v) {
    StoreLanes(bias[v], v, *rows.bias);
    StoreLanes(greatest[v], v, *largest);
  }
}

void DualKeptImpl(const DualLine* weights, int64_t columns, float drop_below, DualRowSet* kept) {
  const FloatTag d;
  const FloatVec least = hn::Set(d, drop_below);
  for (int64_t c = 0; c < columns; ++c) {
    uint32_t rows = 0;
    for (size_t v = 0; v < kVectors; ++v) {
      const FloatVec size = hn::Abs(LoadLanes(weights[c], v));
      rows |= RowsOf(hn::And(hn::Ge(size, least), hn::Gt(size, hn::Zero(d))), v);
    }
    kept[c] = static_cast<DualRowSet>(rows);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(DualPassImpl);
HWY_EXPORT(DualKeptImpl);

void DualPass(const DualSample* samples, const uint32_t* order, int64_t count, DualRowSet live,
              DualSettings settings, const DualRows& rows, DualLine* largest) {
  DSLIDE_DISPATCH(DualPassImpl)(samples, order, count, live, settings, rows, largest);
}

void DualKept(const DualLine* weights, int64_t columns, float drop_below, DualRowSet* kept) {
  DSLIDE_DISPATCH(DualKeptImpl)(weights, columns, drop_below, kept);
}

}  // namespace dslide
#endif  // HWY_ONCE
