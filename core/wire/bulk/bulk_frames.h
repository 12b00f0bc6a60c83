// The messages of Gather and Scatter as bytes with room for the rows in their middle, so that a
// row is copied once or not at all. Byte for byte what the generated classes would write.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/protocol/commands.h"
#include "core/protocol/row_sink.h"
#include "core/wire/row_codec.h"

namespace dslide::wire {

// One GatherResponse that carries rows, as one piece of memory.
class GatherFrame {
 public:
  struct Rows {
    int64_t count = 0;  // > 0
    int64_t dim = 0;
    ActivationType type = ActivationType::kF32;
    bool has_bias = false;
    // Of the whole answer, in its first message; 0: not stated.
    int64_t total_rows = 0;
  };
  explicit GatherFrame(const Rows& rows);

  // Bytes of the message.
  int64_t size() const { return size_; }
  // How far the message must start behind a 64-byte boundary, so that its values are on one.
  int64_t lead() const { return (64 - values_at_ % 64) % 64; }
  // Writes everything but the rows. `frame`: [size()].
  // Returns where those go.
  RowChunk Write(char* frame) const;

 private:
  std::string before_ids_, before_values_, before_biases_, end_;
  int64_t ids_at_ = 0;
  int64_t values_at_ = 0;
  int64_t biases_at_ = 0;
  int64_t size_ = 0;
  bool has_bias_ = false;
};

// The bytes of a message: those of `head`, then those of `body`, which belong to somebody else.
struct FramePart {
  std::string head;
  absl::string_view body;
};

// The messages of one scatter of f32 rows, cut as EncodeScatter() cuts them; the bodies are the
// memory of `command`.
std::vector<std::vector<FramePart>> FrameScatter(const ScatterCommand& command,
                                                 int64_t chunk_bytes = kChunkBytes);

}  // namespace dslide::wire
