// Comparing signatures, and counting how many are near enough.

#include "core/math/kernels_signature.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/math/kernels_signature.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/math/kernels_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void ReadSignaturesImpl(const uint32_t* HWY_RESTRICT pairs, size_t n, uint32_t query,
                        uint32_t* HWY_RESTRICT ids, uint8_t* HWY_RESTRICT equal) {
  const hn::ScalableTag<uint32_t> d;
  const hn::RebindToSigned<decltype(d)> as_signed;
  const hn::Rebind<uint8_t, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto unlike = hn::Set(d, ~query);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> id;
    hn::Vec<decltype(d)> signature;
    hn::LoadInterleaved2(d, pairs + 2 * i, id, signature);
    const auto count = hn::PopulationCount(hn::Xor(signature, unlike));
    hn::StoreU(id, d, ids + i);
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(as_signed, count)), narrow, equal + i);
  }
  for (; i < n; ++i) {
    ids[i] = pairs[2 * i];
    equal[i] = static_cast<uint8_t>(std::popcount(~(pairs[2 * i + 1] ^ query)));
  }
}

int64_t CountAtLeastImpl(const uint8_t* HWY_RESTRICT counts, size_t n, uint8_t bound) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  if (bound == 0) return static_cast<int64_t>(n);
  const auto below = hn::Set(d, static_cast<uint8_t>(bound - 1));
  size_t reached = 0;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    reached += hn::CountTrue(d, hn::Gt(hn::LoadU(d, counts + i), below));
  }
  for (; i < n; ++i) reached += counts[i] >= bound;
  return static_cast<int64_t>(reached);
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(ReadSignaturesImpl);
HWY_EXPORT(CountAtLeastImpl);

void ReadSignatures(const uint32_t* pairs, int64_t n, uint32_t query, uint32_t* ids,
                    uint8_t* equal) {
  DSLIDE_DISPATCH(ReadSignaturesImpl)(pairs, static_cast<size_t>(n), query, ids, equal);
}

int64_t CountAtLeast(const uint8_t* counts, int64_t n, uint8_t bound) {
  return DSLIDE_DISPATCH(CountAtLeastImpl)(counts, static_cast<size_t>(n), bound);
}

}  // namespace dslide
#endif  // HWY_ONCE
