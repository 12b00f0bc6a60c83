#include "tests/reference/vector_reference.h"

#include <cmath>

namespace dslide::reference {

double SumOfSquares(absl::Span<const float> a) {
  double sum = 0.0;
  for (const float value : a) sum += double{value} * double{value};
  return sum;
}

void Axpy(double alpha, absl::Span<const float> x, absl::Span<double> y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] += alpha * double{x[i]};
}

void AddTo(absl::Span<const float> x, absl::Span<double> y) { Axpy(1.0, x, y); }

bool AddWithin(absl::Span<const float> x, absl::Span<double> y, double bound) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(std::fabs(y[i] + double{x[i]}) <= bound)) return false;
  }
  AddTo(x, y);
  return true;
}

bool AllWithin(absl::Span<const float> x, double bound) {
  for (const float value : x) {
    if (!(std::fabs(double{value}) <= bound)) return false;
  }
  return true;
}

Split SplitByCount(absl::Span<const uint32_t> ids, absl::Span<const uint16_t> counts,
                   uint16_t bound) {
  Split split;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (counts[i] > bound) split.above.push_back(ids[i]);
    if (counts[i] == bound) split.equal.push_back(ids[i]);
  }
  return split;
}

std::vector<uint8_t> CountEqualBits(absl::Span<const uint32_t> signatures, uint32_t query) {
  std::vector<uint8_t> equal;
  for (const uint32_t signature : signatures) {
    uint8_t bits = 0;
    for (int bit = 0; bit < 32; ++bit) bits += (signature >> bit) % 2 == (query >> bit) % 2;
    equal.push_back(bits);
  }
  return equal;
}

int64_t CountAtLeast(absl::Span<const uint8_t> counts, uint8_t bound) {
  int64_t reached = 0;
  for (const uint8_t count : counts) reached += count >= bound;
  return reached;
}

}  // namespace dslide::reference
