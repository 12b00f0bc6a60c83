// Where the parts of a row lie in its record, and how many bytes they take: the one source of the
// numbers in docs/operate/sizing.md, of `dslide plan` and of the row store itself.
//
//   [weights | state vectors | tail], each weight or state vector rounded up to 64 bytes
//   tail = bias, bias state, row state (f32), last step (u32), rounded up to 64 bytes
// The last state vector and the last of the bias state are the lags of the average
// (optim/row_average.h) where the table keeps one.
// Weights and state vectors are f32 or bf16, by the table's precision. Unused bytes are 0.

#pragma once

#include <cstdint>

#include "core/spec/model_spec.h"

namespace dslide {

// Data only; a pure function of the spec.
struct RowLayout {
  static RowLayout Of(const TableSpec& spec);

  int64_t dim = 0;
  RowPrecision precision = RowPrecision::kF32;
  bool has_bias = false;  // all but embedding rows
  OptimizerStateSizes state;

  int64_t weight_bytes = 0;  // of the weights, rounded up
  int64_t vector_bytes = 0;  // of one state vector, rounded up
  int64_t tail_offset = 0;   // bytes before the tail
  int64_t tail_floats = 0;   // of the tail that mean something, last step included
  int64_t record_bytes = 0;  // multiple of 64

  bool bf16_weights() const { return precision != RowPrecision::kF32; }
  bool bf16_state() const { return precision == RowPrecision::kBf16; }
  // Bytes of numbers alone, without rounding up: of the weights, and of all optimizer state.
  int64_t used_weight_bytes() const { return dim * (bf16_weights() ? 2 : 4); }
  int64_t used_state_bytes() const {
    return state.vectors * dim * (bf16_state() ? 2 : 4) +
           4 * ((has_bias ? state.bias_floats : 0) + state.row_floats);
  }
};

}  // namespace dslide
