// Rows by id: RowBlock, Gather, Scatter and TopK between the wire and the core.
//
// Decoders of requests check everything that can be checked without knowing the model; the shard
// checks the rest before it changes anything. Errors: InvalidArgument with a reason word. Decoders
// of answers, for clients, return Internal when the answer contradicts itself.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/protocol/commands.h"
#include "core/wire/arrays/array_codec.h"
#include "dslide/v1/common.pb.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// Ids strictly ascending, at most `max_rows`; values [ids, dim]; biases [ids] or empty.
absl::StatusOr<RowBlock> DecodeRowBlock(absl::string_view field, const v1::RowBlock& block,
                                        int64_t max_rows, Floats floats);
void EncodeRowBlock(const RowBlock& block, ActivationType type, v1::RowBlock* out);

// Bytes of numbers in one message of a bulk stream, about.
inline constexpr int64_t kChunkBytes = 1 << 20;
// Rows that fit into a message of `chunk_bytes`; at least one.
int64_t RowsPerChunk(int64_t chunk_bytes, int64_t dim, ActivationType type, bool has_bias);

// --- Gather

// A decoded gather, and the type its answer's values travel in.
struct GatherCall {
  GatherCommand command;
  ActivationType element_type = ActivationType::kF32;
};
absl::StatusOr<GatherCall> DecodeGatherRequest(const v1::GatherRequest& request);
void EncodeGatherRequest(const GatherCall& call, v1::GatherRequest* out);

// Cuts an answer into messages of about `chunk_bytes`, one Next() each; the first carries what was
// selected. Reads `reply` in place: it must live and stay as it is.
class GatherChunker {
 public:
  GatherChunker(const GatherReply& reply, ActivationType type, int64_t chunk_bytes = kChunkBytes);

  // Fills `out` and returns true, or returns false after the last chunk. There is at least one.
  bool Next(v1::GatherResponse* out);

 private:
  const GatherReply& reply_;
  const ActivationType type_;
  int64_t rows_per_chunk_ = 0;
  int64_t next_row_ = 0;
  bool first_ = true;
};

// --- Scatter

v1::ScatterMode EncodeScatterMode(ScatterMode mode);

// The messages of one scatter, of about `chunk_bytes` each; at least one.
std::vector<v1::ScatterRequest> EncodeScatter(const ScatterCommand& command, ActivationType type,
                                              int64_t chunk_bytes = kChunkBytes);

// --- TopK

absl::StatusOr<TopKCommand> DecodeTopKRequest(const v1::TopKRequest& request);
void EncodeTopKRequest(const TopKCommand& command, ActivationType type, v1::TopKRequest* out);
void EncodeTopKResponse(const TopKReply& reply, v1::TopKResponse* out);
// The answer to a request of `batch` queries and `k` rows each.
absl::StatusOr<TopKReply> DecodeTopKResponse(const v1::TopKResponse& response, int64_t batch,
                                             int64_t k);

// Internal: an answer from a peer that contradicts itself.
absl::Status BadAnswer(const absl::Status& why);

}  // namespace dslide::wire
