#include "tests/reference/vector_reference.h"

#include <algorithm>
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

NearIds ReadNear(absl::Span<const uint64_t> words, uint64_t query, int id_bits, uint8_t bound) {
  NearIds near;
  for (const uint64_t word : words) {
    uint8_t equal = 0;
    for (int bit = id_bits; bit < 64; ++bit) equal += (word >> bit) % 2 == (query >> bit) % 2;
    if (equal < bound) continue;
    near.ids.push_back(static_cast<uint32_t>(word % (uint64_t{1} << id_bits)));
    near.equal.push_back(equal);
  }
  return near;
}

int64_t CountAtLeast(absl::Span<const uint8_t> counts, uint8_t bound) {
  int64_t reached = 0;
  for (const uint8_t count : counts) reached += count >= bound;
  return reached;
}

int64_t CountAtLeast(absl::Span<const uint16_t> counts, uint16_t bound) {
  return std::count_if(counts.begin(), counts.end(),
                       [&](uint16_t count) { return count >= bound; });
}

int64_t EqualCodes(absl::Span<const uint64_t> words, absl::Span<const uint64_t> query,
                   int64_t codes_per_word, int64_t bits_per_code) {
  const uint64_t radix = uint64_t{1} << bits_per_code;
  int64_t equal = 0;
  for (size_t w = 0; w < words.size(); ++w) {
    uint64_t left = words[w];
    uint64_t right = query[w];
    for (int64_t code = 0; code < codes_per_word; ++code) {
      equal += left % radix == right % radix ? 1 : 0;
      left /= radix;
      right /= radix;
    }
  }
  return equal;
}

}  // namespace dslide::reference
