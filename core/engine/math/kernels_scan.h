// Kernels of a scan that multiplies small whole numbers, and thereby finds the few rows whose exact
// logits can matter (docs/understand/hashing.md).
//
// A row w becomes whole numbers W near w / s, and a query h of numbers that are not negative
// becomes H near h / v. Their product is exact, and
//   <w, h> <= s v <W, H> + s / 2 * sum v H + ||w|| * ||h - v H||
//
// As in core/engine/math/kernels.h: the instruction set is chosen at run time.

#pragma once

#include <algorithm>
#include <cstdint>

namespace dslide {

// An aligned line of whole numbers: vectors of them make arrays for these kernels.
template <typename Whole>
struct alignas(64) ScanLine {
  static constexpr int64_t kNumbers = 64 / sizeof(Whole);
  Whole whole[kNumbers] = {};
};

// Queries that are looked at together.
inline constexpr int64_t kScanQueries = 16;
// Columns whose products are summed in 16 bits: of each four columns the first two make one sum,
// the last two another. Those of one sum are a half of the segment.
inline constexpr int64_t kScanSegment = 64;
// No half of a segment of a row is longer than the first, none of a query longer than the second:
// no sum of their products exceeds 16 bits, and no whole number of a row 8.
inline constexpr int kRowLength = 127;
inline constexpr int kQueryLength = 258;
static_assert(kRowLength * kQueryLength <= 32767);
// The most columns of a scan.
inline constexpr int64_t kScanColumns = int64_t{1} << 16;
// Lengths that whole numbers stand for: longer rows and queries are scored exactly, and shorter
// ones are rounded as if they were as long as this.
inline constexpr float kMostScanned = 0x1p40f;
inline constexpr float kLeastScanned = 0x1p-50f;

// How rows are rounded.
struct ScanShape {
  int64_t columns;  // [1, kScanColumns]
  bool is_signed;   // the negated whole numbers follow, for queries with negative numbers

  // Segments of a rounded row.
  int64_t segments() const {
    return (columns + kScanSegment - 1) / kScanSegment * (is_signed ? 2 : 1);
  }
};

// A row as whole numbers.
struct ScannedRow {
  float unit;    // s; |w / s - W| <= 0.5, but for the errors of float
  float length;  // ||w||, likewise; infinity where the row must be scored
  float bias;    // the row's, and a bound of what rounding does to it; set by the caller
};

// Rounds rows.
//   weights : [rows] of [columns]    whole : [rows, segments, kScanSegment], 64-byte aligned
//   scanned : [rows], but for the bias
void ScanRows(const float* const* weights, int64_t rows, const ScanShape& shape, int8_t* whole,
              ScannedRow* scanned);

// Rounded queries. A lane is a query's place; [kScanQueries] each, 64-byte aligned.
struct ScanBlock {
  // [segments, kScanSegment / 4, kScanQueries, 4]: four columns of each query side by side.
  const uint8_t* whole;
  int64_t segments;
  int64_t queries;       // lanes in use, the first ones
  const float* units;    // v
  const float* spreads;  // at least v / 2 * sum H: for each unit of a row
  const float* slopes;   // at least ||h - v H|| and what rounding does: for each length of a row
  const float* wanted;   // a row matters from this logit on
};

// Tells for each row which queries it can matter to: bit i of reached[r] is set unless
//   unit * (v * <W, H> + spread) + (slope * length + bias) < wanted
// in float arithmetic, fused or not.
//   whole : as ScanRows() wrote it; scanned, reached : [rows].
void ReachedQueries(const int8_t* whole, const ScannedRow* scanned, int64_t rows,
                    const ScanBlock& block, uint32_t* reached);

// The product of one query with many rows. products[r] = sum_i whole[r][i] * query[i].
//   whole : [rows, columns], 64-byte aligned; columns : a multiple of kScanSegment
//   query : [columns], 64-byte aligned; no |query[i]| above ProductLimit(columns)
void WholeProducts(const int8_t* whole, int64_t rows, int64_t columns, const int16_t* query,
                   int32_t* products);
// So that no sum exceeds 31 bits, and no number 16.
inline int ProductLimit(int64_t columns) {
  constexpr int64_t kMostSum = (int64_t{1} << 31) - 1;
  constexpr int64_t kMostShort = (1 << 15) - 1;
  return static_cast<int>(std::min(kMostShort, kMostSum / (columns * kRowLength)));
}

}  // namespace dslide
