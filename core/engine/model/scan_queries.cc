#include "core/engine/model/scan_queries.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

constexpr double kUnitRoundoff = 0x1p-24;
// Of a bound, for its own rounding.
constexpr double kRoundedUp = 1 + 0x1p-10;

// What one is worth, v: no number exceeds 255, and no half of a segment kQueryLength. A float.
double UnitOf(absl::Span<const float> query) {
  double most = 0;
  double longest = kLeastScanned;
  for (size_t first = 0; first < query.size(); first += kScanSegment) {
    double squares[2] = {0, 0};
    for (size_t i = first; i < std::min(query.size(), first + kScanSegment); ++i) {
      most = std::max(most, std::abs(double{query[i]}));
      squares[i % 4 / 2] += double{query[i]} * double{query[i]};
    }
    longest = std::max({longest, std::sqrt(squares[0]), std::sqrt(squares[1])});
  }
  // Rounding makes a half longer by at most 1/2 in each of its columns: sqrt(32) / 2 < 2.9.
  return static_cast<float>(std::max(most / 254.0, longest / (kQueryLength - 2.9)));
}

}  // namespace

bool ScanQueries::Serve(absl::Span<const float> hidden, int64_t count, int64_t dim) {
  // So that no length reaches the limit.
  constexpr float kMost = kMostScanned / 256;
  static_assert(kScanColumns <= 256 * 256);
  return dim >= 1 && dim <= kScanColumns && AllWithin(hidden.data(), count * dim, kMost);
}

ScanQueries::ScanQueries(absl::Span<const float> hidden, int64_t count, int64_t dim)
    : count_(count),
      shape_{.columns = dim,
             .is_signed = std::any_of(hidden.begin(), hidden.begin() + count * dim,
                                      [](float x) { return x < 0.0f; })},
      lanes_(static_cast<size_t>(blocks())),
      whole_(static_cast<size_t>(blocks() * shape_.segments() * kScanSegment / 4)) {
  for (int64_t q = 0; q < count; ++q) Round(hidden.data() + q * dim, q);
}

// For a row w and a query h of n columns, u = 2^-24 and the units s of the row and v of the query,
// which are floats:
//   exact logit    <= bias + <w, h> + 2 n u ||w|| ||h|| + n 2^-149 + 2 u (|bias| + ||w|| ||h||)
//                     by the contract of Dot()
//   <w, h>         <= s v <W, H> + s / 2 * sum v H + ||w|| * ||h - v H||
//   s v <W, H>     <= ||w|| * ||v H|| + s / 2 * sum v H
//   the bound's own arithmetic: eight operations, 8 u times the sum of the terms' magnitudes
//   ||w|| in float >= (1 - 2 n u) ||w||
// What multiplies ||w|| is the slope, what multiplies s the spread; BiasOf() has the rest. Queries
// with negative numbers have twice as many columns: max(0, h) and max(0, -h), for w and -w.
void ScanQueries::Round(const float* query, int64_t place) {
  const int64_t dim = shape_.columns;
  const int64_t fours = shape_.segments() * kScanSegment / 4;
  const int64_t negated = shape_.is_signed ? fours / 2 : 0;
  const int64_t lane = place % kScanQueries;
  Four* const whole = &whole_[static_cast<size_t>(place / kScanQueries * fours)];
  const double unit = UnitOf({query, static_cast<size_t>(dim)});
  double sum = 0;  // v H
  double square = 0;
  double lost_square = 0;
  for (int64_t i = 0; i < dim; ++i) {
    const double magnitude = std::abs(double{query[i]});
    const double number = std::nearbyint(magnitude / unit);
    whole[(query[i] < 0 ? negated : 0) + i / 4].whole[lane][i % 4] = static_cast<uint8_t>(number);
    sum += number * unit;
    square += magnitude * magnitude;
    lost_square += (magnitude - number * unit) * (magnitude - number * unit);
  }
  Lanes& lanes = lanes_[static_cast<size_t>(place / kScanQueries)];
  const double lost = std::sqrt(lost_square);
  const auto columns = static_cast<double>(dim);
  const double slope = lost + (2 * columns + 16) * kUnitRoundoff * (std::sqrt(square) + lost);
  lanes.units[lane] = static_cast<float>(unit);
  lanes.spreads[lane] = static_cast<float>(kRoundedUp * sum / 2);
  lanes.slopes[lane] = static_cast<float>((kRoundedUp + 4 * columns * kUnitRoundoff) * slope);
}

ScanBlock ScanQueries::Block(int64_t block, const float* wanted) const {
  const Lanes& lanes = lanes_[static_cast<size_t>(block)];
  const int64_t fours = shape_.segments() * kScanSegment / 4;
  return {.whole = &whole_[static_cast<size_t>(block * fours)].whole[0][0],
          .segments = shape_.segments(),
          .queries = std::min(kScanQueries, count_ - block * kScanQueries),
          .units = lanes.units,
          .spreads = lanes.spreads,
          .slopes = lanes.slopes,
          .wanted = wanted + block * kScanQueries};
}

float ScanQueries::BiasOf(float bias) {
  constexpr float kShare = 0x1p-20f;  // 16 u
  constexpr float kUnderflow = 0x1p-90f;
  return bias + (kShare * std::abs(bias) + kUnderflow);
}

}  // namespace dslide
