// The rows of a scatter in the messages that brought them: nothing is copied but ids and biases.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/protocol/replies.h"
#include "core/spec/model_spec.h"

namespace dslide {

// out[i] = in[i] for n bf16 numbers at any address.
void WidenBFloat16(const char* in, int64_t n, float* out);

// Not thread-safe while it is filled; afterwards safe to read from any thread.
struct ReceivedRows {
  std::vector<RowId> rows;  // strictly ascending
  int64_t dim = 0;
  // [rows]: `dim` numbers of each row, f32 or bf16, at any address.
  std::vector<const char*> values;
  std::vector<ActivationType> types;  // [rows]
  std::vector<float> biases;          // [rows] or empty
  // Largest magnitudes of the numbers; all are finite.
  float max_value = 0;
  float max_bias = 0;

  // What the pointers point into: messages, and rows that lay in two pieces of one.
  std::vector<std::shared_ptr<const void>> memory;  // shared with the transport
  std::deque<std::string> joined;

  // `dim` floats of row i that start at any byte: where they lie, or widened in `scratch`, [dim].
  const char* Row(int64_t i, float* scratch) const;
  // A hint that row i, if there is one, is wanted soon.
  void Prefetch(int64_t i) const;
  // The same rows as an ordinary block.
  RowBlock ToBlock() const;
};

}  // namespace dslide
