// Dual coordinate descent of several linear rows at once, a lane each: the rows share their points,
// and differ in which of them they tell from the rest. core/engine/trees/row_solver.h has the
// method.
//
// As in core/engine/math/kernels.h: the instruction set is chosen at run time. A lane's bits depend
// neither on it nor on the other lanes.

#pragma once

#include <cstdint>

#include "core/base/bfloat16.h"

namespace dslide {

// Rows that are solved together.
inline constexpr int64_t kDualRows = 16;
// A set of them: a bit each.
using DualRowSet = uint16_t;
// A number for each of them.
struct alignas(64) DualLine {
  float of[kDualRows] = {};
};

// A point that rows are solved from.
struct DualSample {
  const uint32_t* columns;
  const BFloat16* values;  // [size]
  uint32_t size;
  float curvature;  // of the dual objective along the sample's variable
};

// The rows, and what they think of the samples.
struct DualRows {
  DualLine* weights;           // [columns]
  DualLine* bias;              // [1]
  DualLine* alphas;            // [samples]: dual variables, >= 0
  const DualRowSet* positive;  // [samples]: the rows of which the sample is one
  DualRowSet* active;          // [samples]: the rows that look at the sample still
};

struct DualSettings {
  float diagonal;      // 1 / (2 cost)
  float shrink_above;  // a gradient beyond which a row does not look at a sample any more
};

// One step along each sample, in the order of `order`, for the rows of `live`.
//   order : [samples], a permutation
//   largest : receives the largest step of each row, times the curvature
void DualPass(const DualSample* samples, const uint32_t* order, int64_t count, DualRowSet live,
              DualSettings settings, const DualRows& rows, DualLine* largest);

// The rows whose weight of a column is not 0 and has a magnitude of at least drop_below.
//   kept : [columns]
void DualKept(const DualLine* weights, int64_t columns, float drop_below, DualRowSet* kept);

}  // namespace dslide
