// Vectors side by side: the layout in which the hash functions work on kHadamardLanes vectors at a
// time. Internal to core/lsh.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/math/kernels.h"

namespace dslide {

inline constexpr int64_t kHashLanes = kHadamardLanes;

// A [rows, kHashLanes] block of floats on a 64-byte boundary. Not thread-safe.
class LaneBlock {
 public:
  explicit LaneBlock(int64_t rows) : storage_((rows + 1) * kHashLanes), rows_(rows) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + ((64 - address % 64) % 64) / sizeof(float);
  }
  LaneBlock(const LaneBlock&) = delete;
  LaneBlock& operator=(const LaneBlock&) = delete;

  float* data() { return data_; }
  float* row(int64_t i) { return data_ + i * kHashLanes; }
  const float* row(int64_t i) const { return data_ + i * kHashLanes; }
  int64_t rows() const { return rows_; }

  // Fills rows [0, dim) with `lanes` vectors of a [*, dim] array, one to a column, and everything
  // else with 0. lanes <= kHashLanes.
  void LoadTransposed(const float* vectors, int64_t dim, int64_t lanes) {
    std::fill(row(dim), row(rows_), 0.0f);
    if (lanes == kHashLanes) return TransposeToLanes(vectors, dim, data_);
    for (int64_t i = 0; i < dim; ++i) {
      for (int64_t lane = 0; lane < kHashLanes; ++lane) {
        data_[i * kHashLanes + lane] = lane < lanes ? vectors[lane * dim + i] : 0.0f;
      }
    }
  }

 private:
  std::vector<float> storage_;
  float* data_ = nullptr;
  int64_t rows_;
};

// The vectors to be hashed, with what they are extended by.
struct HashInput {
  const float* vectors;  // [count, dim]
  // [count, 2]: centred bias and norm coordinate of rows. Null for queries, whose extras are 1, 0.
  const float* extras;
  int64_t count;

  float Extra(int64_t vector, int64_t which) const {
    if (extras == nullptr) return which == 0 ? 1.0f : 0.0f;
    return extras[2 * vector + which];
  }
};

}  // namespace dslide
