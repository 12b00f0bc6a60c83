// The small vector kernels of core/engine/math/kernels.h in plain loops and double precision.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace dslide::reference {

double SumOfSquares(absl::Span<const float> a);
// y[i] += alpha * x[i]. Requires equal sizes.
void Axpy(double alpha, absl::Span<const float> x, absl::Span<double> y);
// y[i] += x[i].
void AddTo(absl::Span<const float> x, absl::Span<double> y);
// The same, or nothing when one sum is beyond `bound`. Returns whether.
bool AddWithin(absl::Span<const float> x, absl::Span<double> y, double bound);
// True when every |x[i]| <= bound; NaN makes it false.
bool AllWithin(absl::Span<const float> x, double bound);
// The ids with more than `bound`, and those with as many.
struct Split {
  std::vector<uint32_t> above, equal;
};
Split SplitByCount(absl::Span<const uint32_t> ids, absl::Span<const uint16_t> counts,
                   uint16_t bound);

// Of words with an id in their lowest `id_bits`: the ids of those of whose other bits at least
// `bound` are those of `query`, and how many are.
struct NearIds {
  std::vector<uint32_t> ids;
  std::vector<uint8_t> equal;
};
NearIds ReadNear(absl::Span<const uint64_t> words, uint64_t query, int id_bits, uint8_t bound);
// How many are `bound` or more.
int64_t CountAtLeast(absl::Span<const uint8_t> counts, uint8_t bound);
int64_t CountAtLeast(absl::Span<const uint16_t> counts, uint16_t bound);

// How many of the codes of `words`, `codes_per_word` of `bits_per_code` bits each in every word
// from the lowest bit on, are those of `query`.
int64_t EqualCodes(absl::Span<const uint64_t> words, absl::Span<const uint64_t> query,
                   int64_t codes_per_word, int64_t bits_per_code);

}  // namespace dslide::reference
