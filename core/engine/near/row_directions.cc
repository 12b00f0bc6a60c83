#include "core/engine/near/row_directions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

// More of them come nearer to the best directions; two find as many rows.
constexpr int kMultiplications = 2;
constexpr uint64_t kDirectionsKey = 0x64697265'6374696fULL;
// Directions that are multiplied together, by one thread.
constexpr int64_t kTogether = 8;
static_assert(RowDirections::kCount % kTogether == 0);
// A vector of which less is left beside those before it is nothing but what floats have lost.
constexpr float kLeastLeft = 1e-8f;     // of its square
constexpr float kLeastSquare = 1e-30f;  // of the longest row of a sample

}  // namespace

RowDirections RowDirections::Measure(absl::Span<const float> sample, int64_t dim,
                                     Parallelism parallelism) {
  RowDirections measured;
  measured.dim_ = dim;
  measured.stride_ = (dim + AlignedFloats::kLineFloats - 1) / AlignedFloats::kLineFloats *
                     AlignedFloats::kLineFloats;
  measured.directions_.Resize(kCount * measured.stride_);
  float longest = 0.0f;
  for (size_t i = 0; i < sample.size(); i += static_cast<size_t>(dim)) {
    longest = std::max(longest, SumOfSquares(&sample[i], dim));
  }
  if (!(longest >= kLeastSquare)) return measured;
  CounterRng rng(kDirectionsKey);
  for (int64_t i = 0; i < kCount; ++i) {
    for (int64_t j = 0; j < dim; ++j) {
      measured.Mutable(i)[j] = (rng.NextBits() & 1) != 0 ? 1.0f : -1.0f;
    }
  }
  for (int i = 0; i < kMultiplications; ++i) {
    measured.Multiply(sample, 1.0f / longest, parallelism);
    measured.MakeOrthonormal();
  }
  return measured;
}

void RowDirections::Multiply(absl::Span<const float> sample, float scale, Parallelism parallelism) {
  AlignedFloats products;
  products.Resize(kCount * stride_);
  const auto rows = static_cast<int64_t>(sample.size()) / dim_;
  ParallelFor(parallelism, kCount / kTogether, /*grain=*/1, [&](int64_t block, int) {
    std::array<uint32_t, kTogether> together = {};
    std::iota(together.begin(), together.end(), static_cast<uint32_t>(block * kTogether));
    std::array<float, kTogether> along = {};
    for (int64_t row = 0; row < rows; ++row) {
      const float* const weights = &sample[static_cast<size_t>(row * dim_)];
      RowLogits(weights, 0.0f, directions_.data(), dim_, stride_, together, along.data());
      for (int64_t i = 0; i < kTogether; ++i) {
        Axpy(along[i] * scale, weights, products.data() + (block * kTogether + i) * stride_, dim_);
      }
    }
  });
  directions_ = std::move(products);
}

void RowDirections::MakeOrthonormal() {
  for (int64_t i = 0; i < kCount; ++i) {
    float* const mine = Mutable(i);
    const float whole = SumOfSquares(mine, dim_);
    for (int64_t j = 0; j < i; ++j) {
      const float* const before = Direction(j).data();
      Axpy(-Dot(before, mine, dim_), before, mine, dim_);
    }
    const float left = SumOfSquares(mine, dim_);
    const float factor = left > kLeastLeft * whole ? 1.0f / std::sqrt(left) : 0.0f;
    for (int64_t column = 0; column < dim_; ++column) mine[column] *= factor;
  }
}

void RowDirections::Project(const float* vector, float* along) const {
  std::array<uint32_t, kCount> all = {};
  std::iota(all.begin(), all.end(), 0);
  RowLogits(vector, 0.0f, directions_.data(), dim_, stride_, all, along);
}

}  // namespace dslide
