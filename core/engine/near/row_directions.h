// The few directions along which the rows of a head differ most, and vectors as numbers along them.
//
// The rows of a trained head lie near a space of far fewer dimensions than they have columns, and
// queries do, too: products along the directions tell most rows that are far from a query.
//
// Found by multiplying random vectors with the second moments of a sample, and making them
// orthogonal (Halko, Martinsson and Tropp 2011, "Finding structure with randomness", section 4.5).

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/rows/aligned_floats.h"

namespace dslide {

// Immutable and thread-safe once measured.
class RowDirections {
 public:
  static constexpr int64_t kCount = 64;

  RowDirections() = default;
  // sample: [n, dim], centred rows of numbers whose squares float holds. Equal bits for any number
  // of threads. Cost: 4 n kCount multiplications for each column.
  static RowDirections Measure(absl::Span<const float> sample, int64_t dim,
                               Parallelism parallelism);

  // [dim]: of length 1, and orthogonal to the others; 0 beyond the rank of the sample.
  absl::Span<const float> Direction(int64_t i) const {
    return {directions_.data() + i * stride_, static_cast<size_t>(dim_)};
  }
  // Products of `vector` with each.
  //   vector: [dim]; along: [kCount], overwritten
  void Project(const float* vector, float* along) const;

 private:
  // Multiplies with the sample's second moments times `scale`.
  void Multiply(absl::Span<const float> sample, float scale, Parallelism parallelism);
  void MakeOrthonormal();
  float* Mutable(int64_t i) { return directions_.data() + i * stride_; }

  int64_t dim_ = 0;
  int64_t stride_ = 0;
  AlignedFloats directions_;  // [kCount, stride]
};

}  // namespace dslide
