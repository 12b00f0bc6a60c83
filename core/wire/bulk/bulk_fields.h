// Bulk messages as they arrive: bytes in pieces, whose large fields are looked at where they lie.
//
// On the wire these are ordinary messages of protos/dslide/v1/shard.proto, in any order of fields,
// with fields that this version does not know. Everything small goes through the generated classes.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// Bytes that lie in several places, in order. Not owned.
using Pieces = std::vector<absl::string_view>;

struct BulkBytes {
  Pieces pieces;
  int64_t size = 0;

  // [size] bytes.
  void CopyTo(char* out) const;
};

// A v1.RowBlock without its numbers, and where these are.
struct RowBlockFields {
  bool has_values = false;
  v1::Matrix matrix;  // `data` is empty
  BulkBytes row_ids;
  BulkBytes data;
  BulkBytes biases;
};

// Take a message apart: `rest` gets everything but `rows`. The pieces may be cut anywhere.
// Errors: InvalidArgument BAD_MESSAGE when the bytes are no such message.
absl::Status SplitScatterRequest(absl::Span<const absl::string_view> message,
                                 v1::ScatterRequest* rest, RowBlockFields* rows);
absl::Status SplitGatherResponse(absl::Span<const absl::string_view> message,
                                 v1::GatherResponse* rest, RowBlockFields* rows);

// Rows of `row_bytes` each, one after the other over pieces: where each lies.
class RowCursor {
 public:
  RowCursor(const Pieces& pieces, int64_t row_bytes) : pieces_(pieces), row_bytes_(row_bytes) {}

  // How many of the next rows lie together, at most `most`, and where; 0 when the next one is cut.
  int64_t Together(int64_t most, const char** first);
  // Copies the next row, which lies in several pieces. Requires that there is one.
  void CopyCut(char* out);

 private:
  absl::string_view Rest();

  const Pieces& pieces_;
  const int64_t row_bytes_;
  size_t piece_ = 0;
  size_t offset_ = 0;  // in the piece
};

}  // namespace dslide::wire
