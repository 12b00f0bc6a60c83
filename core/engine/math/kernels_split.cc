// Taking from a list what is at or above a count.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_split.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cstddef>
#include <cstdint>

#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

// Appends the masked lanes of v to p[size ...], and returns the new size. Writes a whole vector:
// the callers have seen at least that many elements more than they have kept. (A store that
// compresses by itself is ten times as slow on some processors.)
template <class Tag, class Vector, class Mask>
HWY_INLINE size_t AppendLanes(Tag d, Vector v, Mask mask, uint32_t* p, size_t size) {
  hn::StoreU(hn::Compress(v, mask), d, p + size);
  return size + hn::CountTrue(d, mask);
}

template <typename Count>
HWY_INLINE SplitSizes Split(const uint32_t* HWY_RESTRICT ids, const Count* HWY_RESTRICT counts,
                            size_t n, Count bound, uint32_t* HWY_RESTRICT above,
                            uint32_t* HWY_RESTRICT equal) {
  const hn::RebindToUnsigned<FloatTag> d;
  const hn::RebindToSigned<FloatTag> compared;
  const hn::Rebind<Count, FloatTag> narrow;
  const auto wanted = hn::Set(compared, bound);
  size_t num_above = 0;
  size_t num_equal = 0;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto id = hn::LoadU(d, ids + i);
    const auto count = hn::PromoteTo(compared, hn::LoadU(narrow, counts + i));
    const auto is_above = hn::RebindMask(d, hn::Gt(count, wanted));
    const auto is_equal = hn::RebindMask(d, hn::Eq(count, wanted));
    num_above = AppendLanes(d, id, is_above, above, num_above);
    num_equal = AppendLanes(d, id, is_equal, equal, num_equal);
  }
  for (; i < n; ++i) {
    if (counts[i] > bound) above[num_above++] = ids[i];
    if (counts[i] == bound) equal[num_equal++] = ids[i];
  }
  return {.above = static_cast<int64_t>(num_above), .equal = static_cast<int64_t>(num_equal)};
}

SplitSizes SplitByCountImpl(const uint32_t* ids, const uint16_t* counts, size_t n, uint16_t bound,
                            uint32_t* above, uint32_t* equal) {
  return Split(ids, counts, n, bound, above, equal);
}
SplitSizes SplitByByteImpl(const uint32_t* ids, const uint8_t* counts, size_t n, uint8_t bound,
                           uint32_t* above, uint32_t* equal) {
  return Split(ids, counts, n, bound, above, equal);
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(SplitByCountImpl);
HWY_EXPORT(SplitByByteImpl);

SplitSizes SplitByCount(const uint32_t* ids, const uint16_t* counts, int64_t n, uint16_t bound,
                        uint32_t* above, uint32_t* equal) {
  return DSLIDE_DISPATCH(SplitByCountImpl)(ids, counts, static_cast<size_t>(n), bound, above,
                                           equal);
}

SplitSizes SplitByCount(const uint32_t* ids, const uint8_t* counts, int64_t n, uint8_t bound,
                        uint32_t* above, uint32_t* equal) {
  return DSLIDE_DISPATCH(SplitByByteImpl)(ids, counts, static_cast<size_t>(n), bound, above, equal);
}

}  // namespace dslide
#endif  // HWY_ONCE
