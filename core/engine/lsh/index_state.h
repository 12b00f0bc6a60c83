// What the tables of an index are made of, for copies that must agree with it.

#pragma once

#include <cstdint>
#include <vector>

namespace dslide {

struct IndexState {
  // What rows are centred with: their mean and that of their biases, [dim + 1], and the squared
  // norm bound.
  std::vector<float> mean;
  float bound_squared = 0.0f;
  // All rows' codes as they were last hashed, packed: [num_rows, words of a row].
  std::vector<uint64_t> codes;
};

}  // namespace dslide
