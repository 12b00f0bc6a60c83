#include "core/engine/near/whole_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

// Rows that are brought to the cache before they are multiplied.
constexpr size_t kWholeRowsAhead = 4;
constexpr float kUnknownBias = std::numeric_limits<float>::max();

static_assert(ScanLine<int8_t>::kNumbers == kScanSegment);

float MostOf(absl::Span<const float> vector) {
  float most = 0.0f;
  for (const float x : vector) most = std::max(most, std::abs(x));
  return most;
}

}  // namespace

bool WholeVector::Rounds(absl::Span<const float> vector) {
  return MostOf(vector) >= kLeastScanned &&
         AllWithin(vector.data(), static_cast<int64_t>(vector.size()), kMostScanned);
}

void WholeVector::Round(absl::Span<const float> vector) {
  const int64_t columns = WholeRows::BytesOfRow(static_cast<int64_t>(vector.size()));
  whole.assign(static_cast<size_t>(columns / ScanLine<int16_t>::kNumbers), {});
  unit = 1.0f;
  if (!Rounds(vector)) return;
  unit = MostOf(vector) / static_cast<float>(ProductLimit(columns));
  int16_t* const numbers = whole.data()->whole;
  for (size_t i = 0; i < vector.size(); ++i) {
    numbers[i] = static_cast<int16_t>(std::lrint(vector[i] / unit));
  }
}

WholeRows::WholeRows(int64_t size, int64_t columns)
    : columns_(columns),
      lines_(ScanShape{columns, false}.segments()),
      units_(static_cast<size_t>(size), 0.0f),
      biases_(static_cast<size_t>(size), kUnknownBias),
      whole_(static_cast<size_t>(size * lines_)) {}

int64_t WholeRows::BytesOfRow(int64_t columns) {
  return ScanShape{columns, false}.segments() * kScanSegment;
}

void WholeRows::Set(int64_t row, const float* weights, float bias) {
  ScannedRow scanned = {};
  ScanRows(&weights, 1, ScanShape{columns_, false}, whole_[row * lines_].whole, &scanned);
  const bool known = scanned.length < kMostScanned;
  units_[row] = known ? scanned.unit : 0.0f;
  biases_[row] = known ? bias : kUnknownBias;
}

void WholeRows::Multiply(int64_t first, int64_t count, const WholeVector& vector, int32_t* scratch,
                         float* products) const {
  WholeProducts(whole(first), count, lines_ * kScanSegment, vector.whole.data()->whole, scratch);
  for (int64_t i = 0; i < count; ++i) {
    products[i] = units_[first + i] * vector.unit * static_cast<float>(scratch[i]);
  }
}

void WholeRows::Estimate(absl::Span<const float> query, WholeRowsScratch& scratch,
                         std::vector<float>& estimates) const {
  scratch.query.Round(query);
  scratch.products.resize(units_.size());
  estimates.resize(units_.size());
  Multiply(0, size(), scratch.query, scratch.products.data(), estimates.data());
  for (size_t i = 0; i < estimates.size(); ++i) estimates[i] += biases_[i];
}

void WholeRows::EstimateSome(absl::Span<const float> query, absl::Span<const uint32_t> rows,
                             WholeRowsScratch& scratch, std::vector<float>& estimates) const {
  scratch.query.Round(query);
  estimates.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kWholeRowsAhead < rows.size()) {
      const int8_t* const ahead = whole(rows[i + kWholeRowsAhead]);
      for (int64_t line = 0; line < lines_; ++line) {
        __builtin_prefetch(ahead + line * kScanSegment);
      }
    }
    int32_t product = 0;
    WholeProducts(whole(rows[i]), 1, lines_ * kScanSegment, scratch.query.whole.data()->whole,
                  &product);
    const float unit = units_[rows[i]] * scratch.query.unit;
    estimates[i] = biases_[rows[i]] + unit * static_cast<float>(product);
  }
}

}  // namespace dslide
