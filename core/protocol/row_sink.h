// Where a gather puts its rows when they are not wanted as a block: memory of the caller's choice,
// so that a row is copied once, from the table to what is sent.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/protocol/replies.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Memory for consecutive rows.
struct RowChunk {
  char* ids = nullptr;     // u32[n], at any address
  char* values = nullptr;  // [n, dim] floats or bf16, on a 64-byte boundary
  char* biases = nullptr;  // f32[n], at any address; null where rows have none
};

struct RowChunks {
  ActivationType type = ActivationType::kF32;
  int64_t rows_per_chunk = 1;    // of all chunks but the last
  std::vector<RowChunk> chunks;  // together as many rows as were asked for
};

class RowSink {
 public:
  virtual ~RowSink() = default;
  // Called once, on the thread that applies commands, when it is known how many rows come and that
  // they will come. `reply` has everything but the rows: their dim, and what was selected. Must not
  // block. The chunks stay until the command's answer is there. An error is the gather's answer.
  virtual absl::StatusOr<const RowChunks*> Begin(int64_t rows, bool has_bias,
                                                 const GatherReply& reply) = 0;
  // A chunk has all its rows, while others are still being filled: it may be sent. Called once for
  // each, in any order, by any thread, before the command's answer is there. Must not block.
  virtual void Filled(size_t chunk) = 0;
};

}  // namespace dslide
