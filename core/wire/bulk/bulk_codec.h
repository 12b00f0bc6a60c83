// The streams of Gather and Scatter put together from their messages, without a copy between: the
// bytes of a message are read where the transport left them.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/protocol/commands.h"
#include "core/protocol/received_rows.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/bulk/bulk_fields.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// Caller's memory for the rows of a gather by id.
struct GatherTarget {
  absl::Span<const RowId> rows;  // that were asked for; the answer must have exactly these
  int64_t dim = 0;
  absl::Span<float> values;  // [*, dim]
  absl::Span<float> biases;  // [*], or empty when they are not wanted
  // [rows]: row i goes to places[i]; empty: to i. All inside `values` and `biases`.
  absl::Span<const uint32_t> places;
};

// Puts the messages of one answer together again. Errors: Internal when the answer contradicts
// itself or the target.
class GatherAssembler {
 public:
  // Collects the rows in the reply.
  GatherAssembler() = default;
  // Puts them into the target, which must outlive the assembler; the reply then has no rows.
  explicit GatherAssembler(const GatherTarget& target) : target_(target), into_target_(true) {}

  // The bytes of one GatherResponse, in order; not used after the call.
  absl::Status Add(absl::Span<const absl::string_view> message);
  absl::Status Add(const v1::GatherResponse& chunk);
  // Call once, after the last chunk. Errors: Internal when rows are missing.
  absl::StatusOr<GatherReply> Finish() &&;

 private:
  absl::Status AddFirst(const v1::GatherResponse& chunk);
  absl::Status AddIds(const BulkBytes& bytes, int64_t count);
  // Makes room for all rows once their width is known.
  absl::Status MakeRoom(int64_t dim, bool has_bias);
  void CopyValues(const RowBlockFields& rows, ActivationType type, int64_t count);
  void CopyBiases(const BulkBytes& bytes, int64_t count);
  int64_t Place(int64_t row) const {
    return into_target_ && !target_.places.empty() ? target_.places[row] : row;
  }

  const GatherTarget target_ = {};
  const bool into_target_ = false;
  GatherReply reply_;
  int64_t total_rows_ = -1;
  int64_t received_ = 0;  // rows
  bool has_bias_ = false;
  float* values_ = nullptr;
  float* biases_ = nullptr;
};

// Collects the messages of one Scatter stream. Rows stay in the messages.
class ScatterAssembler {
 public:
  // `max_bytes` bounds the whole call (the messages together).
  explicit ScatterAssembler(int64_t max_bytes)
      : max_bytes_(max_bytes), rows_(std::make_shared<ReceivedRows>()) {}

  // The bytes of one ScatterRequest; they stay while `memory` lives.
  // Errors: InvalidArgument; the call has then failed and further messages need not be added.
  absl::Status Add(absl::Span<const absl::string_view> message, std::shared_ptr<const void> memory);
  absl::Status Add(const v1::ScatterRequest& chunk);
  // True once the first message's envelope was read; what an error answers is then known.
  bool has_envelope() const { return has_envelope_; }
  const Envelope& envelope() const { return command_.envelope; }
  int64_t bytes() const { return bytes_; }
  // Call once, after the last message. Errors: InvalidArgument when there was none, or when rows
  // are missing: a broken stream looks like an ended one, so the announced number decides.
  absl::StatusOr<ScatterCommand> Finish() &&;

 private:
  absl::Status AddFirst(const v1::ScatterRequest& chunk);
  absl::Status AddRows(const RowBlockFields& rows);
  absl::Status AddIds(const BulkBytes& bytes, int64_t count);
  absl::Status AddValues(const BulkBytes& data, ActivationType type, int64_t count);
  absl::Status AddBiases(const BulkBytes& bytes, int64_t count);
  // Takes `count` rows that lie together. `first` is their position in this message.
  absl::Status TakeRows(const char* from, int64_t first, int64_t count, ActivationType type);

  const int64_t max_bytes_;
  int64_t bytes_ = 0;
  bool has_envelope_ = false;
  int64_t total_rows_ = 0;
  ScatterCommand command_;
  std::shared_ptr<ReceivedRows> rows_;  // becomes the command's
};

}  // namespace dslide::wire
