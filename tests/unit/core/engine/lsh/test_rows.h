// Rows and queries for the hashing tests.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/lsh/hash_index.h"

namespace dslide {

// Rows in plain vectors, open to changes.
class TestRows final : public HashedRows {
 public:
  explicit TestRows(int64_t dim) : dim_(dim) {}

  // `count` normal rows of norm about 1 around a common mean.
  static TestRows Random(int64_t count, int64_t dim, uint64_t seed) {
    TestRows rows(dim);
    CounterRng rng(seed);
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    std::vector<float> mean(dim);
    for (float& value : mean) value = scale * rng.NextGaussian();
    for (int64_t r = 0; r < count; ++r) {
      std::vector<float> row(dim);
      for (int64_t i = 0; i < dim; ++i) row[i] = mean[i] + scale * rng.NextGaussian();
      rows.weights.push_back(row);
      rows.biases.push_back(0.2f * rng.NextGaussian());
    }
    return rows;
  }

  int64_t num_rows() const override { return static_cast<int64_t>(weights.size()); }
  int64_t dim() const override { return dim_; }
  const float* ReadWeights(LocalRow row, float* /*scratch*/) const override {
    return weights[row.value()].data();
  }
  float Bias(LocalRow row) const override { return biases[row.value()]; }

  std::vector<std::vector<float>> weights;
  std::vector<float> biases;

 private:
  int64_t dim_;
};

// Coarse buckets, so that a few hundred rows fill them.
inline HashSpec CoarseSpec(HashFamilyKind family) {
  HashSpec spec;
  spec.family = family;
  spec.codes_per_table = family == HashFamilyKind::kDwta ? 2 : 5;
  spec.bin_size = 4;
  spec.num_tables = 9;
  return spec;
}

// [count, dim] outputs of a ReLU: normal numbers, each zero with probability `zeros`, else
// positive.
inline std::vector<float> RandomHidden(int64_t count, int64_t dim, double zeros, uint64_t seed) {
  CounterRng rng(seed);
  std::vector<float> hidden(count * dim);
  for (float& value : hidden) {
    const bool zero = static_cast<double>(rng.NextUniform()) < zeros;
    const float magnitude = std::abs(rng.NextGaussian());
    value = zero ? 0.0f : magnitude;
  }
  return hidden;
}

inline std::vector<LocalRow> Rows(const std::vector<uint32_t>& values) {
  return std::vector<LocalRow>(values.begin(), values.end());
}

}  // namespace dslide
