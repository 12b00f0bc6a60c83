// Rows rounded to 8 bits, and what they say of logits.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/engine/math/kernels_scan.h"

namespace dslide {

// A vector rounded to 16 bits, to be multiplied with rows. Keeps its memory.
struct WholeVector {
  std::vector<ScanLine<int16_t>> whole;
  float unit = 0.0f;  // what one of its numbers is worth

  // Whether whole numbers stand for such a vector. They do not for zeros, infinity and NaN.
  static bool Rounds(absl::Span<const float> vector);
  // All 0 where Rounds() is false.
  void Round(absl::Span<const float> vector);
};

// Keeps its memory. Not thread-safe.
struct WholeRowsScratch {
  WholeVector query;
  std::vector<int32_t> products;
};

// Thread safety: const functions are concurrent with each other, and Set() of different rows, too.
class WholeRows {
 public:
  WholeRows() = default;
  // All rows are unknown.
  WholeRows(int64_t size, int64_t columns);

  int64_t size() const { return static_cast<int64_t>(units_.size()); }
  // Bytes of a row's whole numbers.
  static int64_t BytesOfRow(int64_t columns);

  // Weights that are too large for it, or no numbers, leave the row unknown: it is always estimated
  // as the largest. weights: [columns].
  void Set(int64_t row, const float* weights, float bias);
  bool Known(int64_t row) const { return units_[row] > 0.0f; }

  // Products of the rows [first, first + count) with a vector of as many columns; 0 of unknown
  // ones.
  //   scratch, products: [count], overwritten
  void Multiply(int64_t first, int64_t count, const WholeVector& vector, int32_t* scratch,
                float* products) const;

  // What the logits are likely, but for a term that all of them share: biases and products with the
  // rounded query; biases alone where it does not round.
  //   query: [columns]    estimates: overwritten, [size()]
  void Estimate(absl::Span<const float> query, WholeRowsScratch& scratch,
                std::vector<float>& estimates) const;
  // The same of some rows. estimates: [rows.size()].
  void EstimateSome(absl::Span<const float> query, absl::Span<const uint32_t> rows,
                    WholeRowsScratch& scratch, std::vector<float>& estimates) const;

 private:
  const int8_t* whole(int64_t row) const { return whole_[row * lines_].whole; }

  int64_t columns_ = 0;
  int64_t lines_ = 0;                    // of a row
  std::vector<float> units_;             // [size]: what one of its numbers is worth; 0: unknown
  std::vector<float> biases_;            // [size]; the largest float: unknown
  std::vector<ScanLine<int8_t>> whole_;  // [size, lines]
};

}  // namespace dslide
