// Rows as whole numbers, and what their products with queries say of logits.

#include "core/engine/math/kernels_scan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/math/kernels_scan.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/engine/math/kernels_target.h"
#include "core/engine/math/kernels_vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dslide {
namespace HWY_NAMESPACE {

using ByteTag = hn::Repartition<int8_t, FloatTag>;
using ShortTag = hn::Repartition<int16_t, FloatTag>;
using WholeTag = hn::RebindToSigned<FloatTag>;
using ByteVec = hn::Vec<ByteTag>;
using ShortVec = hn::Vec<ShortTag>;
using WholeVec = hn::Vec<WholeTag>;
using UnsignedByteVec = hn::Vec<hn::RebindToUnsigned<ByteTag>>;

// Instructions that Highway has no name for. Multiply() sums products of two neighbours, and Sum()
// two neighbours; Pack() narrows the blocks of 128 bits of its arguments in turns.
#if HWY_MAX_BYTES == 64
HWY_INLINE ShortVec Multiply(UnsignedByteVec a, ByteVec b) {
  return ShortVec{_mm512_maddubs_epi16(a.raw, b.raw)};
}
HWY_INLINE ByteVec Pack(WholeVec a, WholeVec b, WholeVec c, WholeVec d) {
  return ByteVec{
      _mm512_packs_epi16(_mm512_packs_epi32(a.raw, b.raw), _mm512_packs_epi32(c.raw, d.raw))};
}
#elif HWY_MAX_BYTES == 32
HWY_INLINE ShortVec Multiply(UnsignedByteVec a, ByteVec b) {
  return ShortVec{_mm256_maddubs_epi16(a.raw, b.raw)};
}
HWY_INLINE ByteVec Pack(WholeVec a, WholeVec b, WholeVec c, WholeVec d) {
  return ByteVec{
      _mm256_packs_epi16(_mm256_packs_epi32(a.raw, b.raw), _mm256_packs_epi32(c.raw, d.raw))};
}
#else
HWY_INLINE ShortVec Multiply(UnsignedByteVec a, ByteVec b) {
  return ShortVec{_mm_maddubs_epi16(a.raw, b.raw)};
}
HWY_INLINE ByteVec Pack(WholeVec a, WholeVec b, WholeVec c, WholeVec d) {
  return ByteVec{_mm_packs_epi16(_mm_packs_epi32(a.raw, b.raw), _mm_packs_epi32(c.raw, d.raw))};
}
#endif

// Columns that are packed at a time.
inline constexpr size_t kPacked = 4 * kLanes;
// Adding it to a number of at most 2^22 leaves the nearest whole number in the lowest bits.
inline constexpr float kRounder = 0x1.8p23f;
// Above what the squares that float loses add to the length of a row.
inline constexpr float kLostLength = 0x1p-60f;

// Columns [i, i + kLanes); 0 beyond the last.
HWY_INLINE FloatVec LoadColumns(const float* weights, size_t i, size_t columns) {
  if (i + kLanes <= columns) return hn::LoadU(FloatTag(), weights + i);
  return i < columns ? LoadTail(weights + i, columns - i) : hn::Zero(FloatTag());
}

// The squares of a row's weights, lane by lane.
struct RowSquares {
  FloatVec segment;   // of the segment under way
  FloatVec all;       // of those before
  FloatVec greatest;  // of any of those

  HWY_INLINE RowSquares() : segment(hn::Zero(FloatTag())), all(segment), greatest(segment) {}
  HWY_INLINE void Add(FloatVec weights) { segment = hn::MulAdd(weights, weights, segment); }
  HWY_INLINE void EndSegment() {
    all = hn::Add(all, segment);
    greatest = hn::Max(greatest, segment);
    segment = hn::Zero(FloatTag());
  }
};

HWY_INLINE void MeasureRow(const float* HWY_RESTRICT weights, size_t columns,
                           ScannedRow* HWY_RESTRICT row) {
  RowSquares squares;
  size_t i = 0;
  for (; i + kScanSegment <= columns; i += kScanSegment) {
    for (size_t j = 0; j < kScanSegment; j += kLanes) {
      squares.Add(hn::LoadU(FloatTag(), weights + i + j));
    }
    squares.EndSegment();
  }
  if (i < columns) {
    for (; i < columns; i += kLanes) squares.Add(LoadColumns(weights, i, columns));
    squares.EndSegment();
  }
  // Two lanes next to each other are of one half.
  HWY_ALIGN float halves[4];
  hn::Store(FoldBlocks(squares.greatest), QuadTag(), halves);
  const float half = std::max(halves[0] + halves[1], halves[2] + halves[3]);
  const float length = std::sqrt(SumLanes(squares.all)) + kLostLength;
  const bool scanned = length < kMostScanned;  // and no NaN
  // Rounding makes a half longer by at most 1/2 in each of its columns: sqrt(32) / 2 < 2.9.
  constexpr float kInverseLength = 1.0f / (kRowLength - 2.9f);
  row->unit = scanned ? std::max(std::sqrt(half), kLeastScanned) * kInverseLength : 1.0f;
  row->length = scanned ? length : std::numeric_limits<float>::infinity();
}

// The whole numbers of kLanes weights.
HWY_INLINE WholeVec Nearest(FloatVec weights, FloatVec inverse_unit) {
  const WholeTag d;
  const FloatVec rounder = hn::Set(FloatTag(), kRounder);
  return hn::Sub(hn::BitCast(d, hn::MulAdd(weights, inverse_unit, rounder)),
                 hn::BitCast(d, rounder));
}

HWY_INLINE void RoundRow(const float* HWY_RESTRICT weights, const ScanShape& shape,
                         float inverse_unit, int8_t* HWY_RESTRICT whole) {
  const ByteTag bytes;
  const WholeTag d;
  const auto columns = static_cast<size_t>(shape.columns);
  const size_t end = (columns + kScanSegment - 1) / kScanSegment * kScanSegment;
  const FloatVec inverse = hn::Set(FloatTag(), inverse_unit);
  HWY_ALIGN int32_t places[kLanes];
  constexpr size_t kBlocks = kLanes / 4;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    places[lane] = static_cast<int32_t>(lane % kBlocks * 4 + lane / kBlocks);
  }
  const auto in_order = hn::SetTableIndices(d, places);
  const auto store = [&](size_t i, FloatVec w0, FloatVec w1, FloatVec w2, FloatVec w3) HWY_ATTR {
    ByteVec packed = Pack(Nearest(w0, inverse), Nearest(w1, inverse), Nearest(w2, inverse),
                          Nearest(w3, inverse));
    packed = hn::BitCast(bytes, hn::TableLookupLanes(hn::BitCast(d, packed), in_order));
    hn::Store(packed, bytes, whole + i);
    if (shape.is_signed) hn::Store(hn::Neg(packed), bytes, whole + end + i);
  };
  size_t i = 0;
  for (; i + kPacked <= columns; i += kPacked) {
    const float* const at = weights + i;
    store(i, hn::LoadU(FloatTag(), at), hn::LoadU(FloatTag(), at + kLanes),
          hn::LoadU(FloatTag(), at + 2 * kLanes), hn::LoadU(FloatTag(), at + 3 * kLanes));
  }
  for (; i < end; i += kPacked) {
    store(i, LoadColumns(weights, i, columns), LoadColumns(weights, i + kLanes, columns),
          LoadColumns(weights, i + 2 * kLanes, columns),
          LoadColumns(weights, i + 3 * kLanes, columns));
  }
}

void ScanRowsImpl(const float* const* weights, size_t rows, const ScanShape& shape,
                  int8_t* HWY_RESTRICT whole, ScannedRow* HWY_RESTRICT scanned) {
  const auto stride = static_cast<size_t>(shape.segments() * kScanSegment);
  const auto columns = static_cast<size_t>(shape.columns);
  for (size_t r = 0; r < rows; ++r) MeasureRow(weights[r], columns, &scanned[r]);
  for (size_t r = 0; r < rows; ++r) {
    RoundRow(weights[r], shape, 1.0f / scanned[r].unit, whole + r * stride);
  }
}

// Rows and vectors of queries whose sums stay in registers.
inline constexpr size_t kScannedRows = 4;
inline constexpr size_t kScannedVectors = 2;

// <W, H> of some rows and queries.
template <size_t kRows, size_t kVectors>
struct Products {
  WholeVec of[kRows][kVectors];
};

// The products of one segment. whole: of the first row, `stride` from row to row.
template <size_t kRows, size_t kVectors>
HWY_INLINE void AddSegment(const int8_t* HWY_RESTRICT whole, size_t stride,
                           const uint8_t* HWY_RESTRICT queries,
                           Products<kRows, kVectors>& products) {
  const ByteTag bytes;
  const hn::RebindToUnsigned<ByteTag> unsigned_bytes;
  const ShortTag shorts;
  const WholeTag wholes;
  ShortVec sums[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(shorts);
  }
  const int8_t* row[kRows];
  for (size_t r = 0; r < kRows; ++r) row[r] = whole + r * stride;
#pragma GCC unroll 16
  for (size_t i = 0; i < kScanSegment; i += 4) {
    UnsignedByteVec query[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      query[v] = hn::Load(unsigned_bytes, queries + i * kScanQueries + 4 * v * kLanes);
    }
    for (size_t r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, row[r] + i, sizeof(four));
      const ByteVec weights = hn::BitCast(bytes, hn::Set(wholes, four));
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::Add(sums[r][v], Multiply(query[v], weights));
        // Else compilers multiply first and add last, which takes more registers than there are.
        asm("" : "+x"(sums[r][v].raw));
      }
    }
  }
  const ShortVec one = hn::Set(shorts, 1);
  WholeVec odd = hn::Zero(wholes);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      products.of[r][v] =
          hn::ReorderWidenMulAccumulate(wholes, sums[r][v], one, products.of[r][v], odd);
    }
  }
}

// Which of the queries of one vector a row reaches.
HWY_INLINE auto Reaches(WholeVec product, const ScannedRow& row, const ScanBlock& block,
                        size_t at) {
  const FloatTag d;
  const FloatVec near = hn::MulAdd(hn::Load(d, block.units + at), hn::ConvertTo(d, product),
                                   hn::Load(d, block.spreads + at));
  const FloatVec rest =
      hn::MulAdd(hn::Load(d, block.slopes + at), hn::Set(d, row.length), hn::Set(d, row.bias));
  const FloatVec most = hn::MulAdd(hn::Set(d, row.unit), near, rest);
  return hn::Not(hn::Lt(most, hn::Load(d, block.wanted + at)));
}

// The queries of kVectors vectors from `at` on.
template <size_t kRows, size_t kVectors>
HWY_INLINE void ReachedOf(const int8_t* HWY_RESTRICT whole, const ScannedRow* HWY_RESTRICT rows,
                          const ScanBlock& block, size_t at, uint32_t* HWY_RESTRICT reached) {
  const FloatTag d;
  const size_t stride = static_cast<size_t>(block.segments) * kScanSegment;
  Products<kRows, kVectors> products;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) products.of[r][v] = hn::Zero(WholeTag());
  }
  for (size_t i = 0; i < stride; i += kScanSegment) {
    AddSegment(whole + i, stride, block.whole + i * kScanQueries + 4 * at, products);
  }
  for (size_t r = 0; r < kRows; ++r) {
    auto any = Reaches(products.of[r][0], rows[r], block, at);
    for (size_t v = 1; v < kVectors; ++v) {
      any = hn::Or(any, Reaches(products.of[r][v], rows[r], block, at + v * kLanes));
    }
    if (HWY_LIKELY(hn::AllFalse(d, any))) continue;
    for (size_t v = 0; v < kVectors; ++v) {
      uint8_t bytes[8] = {};
      const size_t first = at + v * kLanes;
      hn::StoreMaskBits(d, Reaches(products.of[r][v], rows[r], block, first), bytes);
      uint32_t bits;
      std::memcpy(&bits, bytes, sizeof(bits));
      reached[r] |= bits << first;
    }
  }
}

template <size_t kRows>
HWY_INLINE void ReachedOfRows(const int8_t* whole, const ScannedRow* rows, const ScanBlock& block,
                              uint32_t* reached) {
  const auto queries = static_cast<size_t>(block.queries);
  for (size_t r = 0; r < kRows; ++r) reached[r] = 0;
  size_t at = 0;
  for (; at + (kScannedVectors - 1) * kLanes < queries; at += kScannedVectors * kLanes) {
    ReachedOf<kRows, kScannedVectors>(whole, rows, block, at, reached);
  }
  if (at < queries) ReachedOf<kRows, 1>(whole, rows, block, at, reached);
  const uint32_t used = (uint32_t{1} << block.queries) - 1;
  for (size_t r = 0; r < kRows; ++r) reached[r] &= used;
}

void ReachedQueriesImpl(const int8_t* whole, const ScannedRow* rows, size_t count,
                        const ScanBlock& block, uint32_t* reached) {
  const size_t stride = static_cast<size_t>(block.segments) * kScanSegment;
  size_t r = 0;
  for (; r + kScannedRows <= count; r += kScannedRows) {
    ReachedOfRows<kScannedRows>(whole + r * stride, rows + r, block, reached + r);
  }
  for (; r < count; ++r) ReachedOfRows<1>(whole + r * stride, rows + r, block, reached + r);
}

void WholeProductsImpl(const int8_t* HWY_RESTRICT whole, size_t rows, size_t columns,
                       const int16_t* HWY_RESTRICT query, int32_t* HWY_RESTRICT products) {
  const ShortTag shorts;
  const hn::Rebind<int8_t, ShortTag> narrow;
  const WholeTag d;
  constexpr size_t kShorts = 2 * kLanes;
  for (size_t r = 0; r < rows; ++r, whole += columns) {
    WholeVec sum0 = hn::Zero(d);
    WholeVec sum1 = hn::Zero(d);
    WholeVec odd = hn::Zero(d);
    for (size_t i = 0; i < columns; i += 2 * kShorts) {
      sum0 = hn::ReorderWidenMulAccumulate(d, hn::PromoteTo(shorts, hn::LoadU(narrow, whole + i)),
                                           hn::Load(shorts, query + i), sum0, odd);
      sum1 = hn::ReorderWidenMulAccumulate(
          d, hn::PromoteTo(shorts, hn::LoadU(narrow, whole + i + kShorts)),
          hn::Load(shorts, query + i + kShorts), sum1, odd);
    }
    products[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dslide
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dslide {

HWY_EXPORT(ScanRowsImpl);
HWY_EXPORT(ReachedQueriesImpl);
HWY_EXPORT(WholeProductsImpl);

void ScanRows(const float* const* weights, int64_t rows, const ScanShape& shape, int8_t* whole,
              ScannedRow* scanned) {
  DSLIDE_DISPATCH(ScanRowsImpl)(weights, static_cast<size_t>(rows), shape, whole, scanned);
}

void ReachedQueries(const int8_t* whole, const ScannedRow* scanned, int64_t rows,
                    const ScanBlock& block, uint32_t* reached) {
  DSLIDE_DISPATCH(ReachedQueriesImpl)(whole, scanned, static_cast<size_t>(rows), block, reached);
}

void WholeProducts(const int8_t* whole, int64_t rows, int64_t columns, const int16_t* query,
                   int32_t* products) {
  DSLIDE_DISPATCH(WholeProductsImpl)
  (whole, static_cast<size_t>(rows), static_cast<size_t>(columns), query, products);
}

}  // namespace dslide
#endif  // HWY_ONCE
