// Working arrays of floats on 64-byte boundaries: a vector that straddles two cache lines costs two
// loads, which the kernels of rows spend most of their time on.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace dslide {

// Grows and keeps its memory. Not thread-safe.
class AlignedFloats {
 public:
  // Makes room for `count` floats; contents are kept. New ones are 0.
  void Resize(int64_t count) { lines_.resize((count + kLineFloats - 1) / kLineFloats); }
  float* data() { return lines_.data()->values; }
  const float* data() const { return lines_.data()->values; }

  static constexpr int64_t kLineFloats = 16;

 private:
  struct alignas(64) Line {
    float values[kLineFloats] = {};
  };
  std::vector<Line> lines_;
};

// A copy of a matrix, each of whose rows begins on a boundary. Keeps its memory. Not thread-safe.
class AlignedRows {
 public:
  // rows: [n, dim].
  void Copy(absl::Span<const float> rows, int64_t dim) {
    const int64_t n = static_cast<int64_t>(rows.size()) / dim;
    stride_ = (dim + AlignedFloats::kLineFloats - 1) / AlignedFloats::kLineFloats *
              AlignedFloats::kLineFloats;
    floats_.Resize(n * stride_);
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(rows.data() + i * dim, dim, floats_.data() + i * stride_);
    }
  }
  const float* data() const { return floats_.data(); }
  // Floats from one row to the next.
  int64_t stride() const { return stride_; }

 private:
  AlignedFloats floats_;
  int64_t stride_ = 0;
};

}  // namespace dslide
