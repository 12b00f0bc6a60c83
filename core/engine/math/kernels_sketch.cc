// Comparing codes and sketches, and counting how many are near enough.

#include "core/engine/math/kernels_sketch.h"

// Counting the bits of a vector's lanes is one instruction there, and ten elsewhere.
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_sketch.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/engine/math/kernels_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bits of a word that are its id.
HWY_INLINE uint64_t IdMask(int id_bits) { return (uint64_t{1} << id_bits) - 1; }

// What is left of a word by an exclusive or with this, but for the id, are the bits of its
// sketch that are those of the query's.
HWY_INLINE uint64_t Unlike(uint64_t query, int id_bits) { return ~query & ~IdMask(id_bits); }

int64_t ReadNearImpl(const uint64_t* HWY_RESTRICT words, size_t n, uint64_t query, int id_bits,
                     uint8_t bound, uint32_t* HWY_RESTRICT ids, uint8_t* HWY_RESTRICT equal) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> halves;
  const hn::RebindToSigned<decltype(halves)> as_signed;
  const hn::Rebind<uint8_t, decltype(halves)> narrow;
  const size_t lanes = hn::Lanes(d);
  const uint64_t id_mask = IdMask(id_bits);
  const uint64_t unlike = Unlike(query, id_bits);
  const auto mask = hn::Set(d, id_mask);
  const auto wanted = hn::Set(d, unlike);
  const auto below = hn::Set(as_signed, int32_t{bound} - 1);
  const auto count_of = [&](auto word) HWY_ATTR {
    return hn::BitCast(halves, hn::PopulationCount(hn::AndNot(mask, hn::Xor(word, wanted))));
  };
  const auto id_of = [&](auto word) HWY_ATTR { return hn::BitCast(halves, hn::And(word, mask)); };
  size_t taken = 0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto first = hn::LoadU(d, words + i);
    const auto second = hn::LoadU(d, words + i + lanes);
    const auto count =
        hn::BitCast(as_signed, hn::ConcatEven(halves, count_of(second), count_of(first)));
    const auto id = hn::ConcatEven(halves, id_of(second), id_of(first));
    const auto is_near = hn::Gt(count, below);
    // Whole vectors are written: no more were kept than were seen.
    hn::StoreU(hn::Compress(id, hn::RebindMask(halves, is_near)), halves, ids + taken);
    hn::StoreU(hn::DemoteTo(narrow, hn::Compress(count, is_near)), narrow, equal + taken);
    taken += hn::CountTrue(as_signed, is_near);
  }
  for (; i < n; ++i) {
    const int count = std::popcount((words[i] ^ unlike) & ~id_mask);
    if (count < bound) continue;
    ids[taken] = static_cast<uint32_t>(words[i] & id_mask);
    equal[taken++] = static_cast<uint8_t>(count);
  }
  return static_cast<int64_t>(taken);
}

template <typename Count>
HWY_INLINE int64_t AtLeast(const Count* HWY_RESTRICT counts, size_t n, Count bound) {
  const hn::ScalableTag<Count> d;
  const size_t lanes = hn::Lanes(d);
  if (bound == 0) return static_cast<int64_t>(n);
  const auto below = hn::Set(d, static_cast<Count>(bound - 1));
  size_t reached = 0;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    reached += hn::CountTrue(d, hn::Gt(hn::LoadU(d, counts + i), below));
  }
  for (; i < n; ++i) reached += counts[i] >= bound;
  return static_cast<int64_t>(reached);
}

int64_t BytesAtLeastImpl(const uint8_t* counts, size_t n, uint8_t bound) {
  return AtLeast(counts, n, bound);
}
int64_t CountsAtLeastImpl(const uint16_t* counts, size_t n, uint16_t bound) {
  return AtLeast(counts, n, bound);
}

void CountEqualCodesImpl(const CodeColumns& columns, const CodeShape& shape,
                         const uint64_t* HWY_RESTRICT query, uint16_t* HWY_RESTRICT equal) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> halves;
  const hn::RebindToSigned<decltype(halves)> as_signed;
  const hn::Rebind<uint16_t, decltype(halves)> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto n = static_cast<size_t>(columns.n);
  const auto lowest = hn::Set(d, shape.lowest_bits);
  const auto all = hn::Set(as_signed, static_cast<int32_t>(shape.num_codes));
  const auto different = [&](const uint64_t* words, uint64_t wanted) HWY_ATTR {
    const auto bits = hn::Xor(hn::LoadU(d, words), hn::Set(d, wanted));
    auto any = bits;  // see DifferentCodes
    for (int b = 1; b < shape.bits_per_code; ++b) any = hn::Or(any, hn::ShiftRightSame(bits, b));
    return hn::PopulationCount(hn::And(any, lowest));
  };
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    auto first = hn::Zero(d);
    auto second = hn::Zero(d);
    for (int64_t w = 0; w < columns.words_per_vector; ++w) {
      const uint64_t* const words = columns.words + w * columns.stride + i;
      first = hn::Add(first, different(words, query[w]));
      second = hn::Add(second, different(words + lanes, query[w]));
    }
    const auto count = hn::BitCast(
        as_signed, hn::ConcatEven(halves, hn::BitCast(halves, second), hn::BitCast(halves, first)));
    hn::StoreU(hn::DemoteTo(narrow, hn::Sub(all, count)), narrow, equal + i);
  }
  for (; i < n; ++i) {
    int64_t count = 0;
    for (int64_t w = 0; w < columns.words_per_vector; ++w) {
      count += DifferentCodes(columns.words[w * columns.stride + i] ^ query[w], shape);
    }
    equal[i] = static_cast<uint16_t>(shape.num_codes - count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(ReadNearImpl);
HWY_EXPORT(BytesAtLeastImpl);
HWY_EXPORT(CountsAtLeastImpl);
HWY_EXPORT(CountEqualCodesImpl);

int64_t ReadNear(const uint64_t* words, int64_t n, uint64_t query, int id_bits, uint8_t bound,
                 uint32_t* ids, uint8_t* equal) {
  return DSLIDE_DISPATCH(ReadNearImpl)(words, static_cast<size_t>(n), query, id_bits, bound, ids,
                                       equal);
}

int64_t CountAtLeast(const uint8_t* counts, int64_t n, uint8_t bound) {
  return DSLIDE_DISPATCH(BytesAtLeastImpl)(counts, static_cast<size_t>(n), bound);
}

int64_t CountAtLeast(const uint16_t* counts, int64_t n, uint16_t bound) {
  return DSLIDE_DISPATCH(CountsAtLeastImpl)(counts, static_cast<size_t>(n), bound);
}

void CountEqualCodes(const CodeColumns& columns, const CodeShape& shape, const uint64_t* query,
                     uint16_t* equal) {
  DSLIDE_DISPATCH(CountEqualCodesImpl)(columns, shape, query, equal);
}

}  // namespace dslide
#endif  // HWY_ONCE
