// Arrays on the wire: little-endian `bytes` <-> vectors of numbers, with every size checked before
// anything is allocated.
//
// `field` names the array in errors ("head_forward.label_ids"). All errors are InvalidArgument with
// a reason word (reason_words.h).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"
#include "dslide/v1/common.pb.h"

namespace dslide::wire {

// Samples of one request, and rows or columns of one matrix.
inline constexpr int64_t kMaxBatch = 65536;
inline constexpr int64_t kMaxMatrixSide = 65536;
// Rows of one gather or scatter.
inline constexpr int64_t kMaxBulkRows = int64_t{1} << 20;
// A request holds at most so many bytes (a message of kMaxMessageBytes has to carry them).
inline constexpr int64_t kMaxMessageBytes = 4 << 20;
// Numbers of four bytes that fit.
inline constexpr int64_t kMaxMessageNumbers = kMaxMessageBytes / 4;
// No number in a request is larger; a model's magnitude_bound is at most this.
inline constexpr float kMaxMagnitude = 1e30f;

// How many elements an array must have.
struct Count {
  int64_t low = 0;
  int64_t high = 0;
  static Count Exactly(int64_t n) { return {n, n}; }
  static Count AtMost(int64_t n) { return {0, n}; }
};

// "3", or "1 to 3".
std::string CountText(Count count);

// Which numbers an array may hold.
enum class Floats {
  kBounded,  // |x| <= kMaxMagnitude; requests
  kAny,      // answers: -inf has a meaning in some
};

absl::StatusOr<std::vector<uint32_t>> DecodeU32s(absl::string_view field, const std::string& bytes,
                                                 Count count);
// Each number has two bytes.
absl::StatusOr<std::vector<uint32_t>> DecodeU16s(absl::string_view field, const std::string& bytes,
                                                 Count count);
// Every number as Floats says.
absl::Status CheckFloats(absl::string_view field, absl::Span<const float> values, Floats floats);
absl::StatusOr<std::vector<float>> DecodeFloats(absl::string_view field, const std::string& bytes,
                                                Count count, Floats floats);
// Also checks that every id is below kMaxTableRows.
absl::StatusOr<std::vector<RowId>> DecodeRowIds(absl::string_view field, const std::string& bytes,
                                                Count count);
// As DecodeRowIds, and that the ids are strictly ascending.
absl::StatusOr<std::vector<RowId>> DecodeAscendingRowIds(absl::string_view field,
                                                         const std::string& bytes, Count count);

// [batch + 1] offsets, ascending from 0; batch in [min_batch, kMaxBatch].
absl::StatusOr<std::vector<uint32_t>> DecodeOffsets(absl::string_view field,
                                                    const std::string& bytes, Count batch);
// Ids strictly ascending within each sample. rows: [offsets.back()].
absl::Status CheckAscendingInSamples(absl::string_view field, absl::Span<const uint32_t> offsets,
                                     absl::Span<const RowId> rows);

// `out` is overwritten.
void EncodeU32s(absl::Span<const uint32_t> values, std::string* out);
// The lower halves of the values.
void EncodeU16s(absl::Span<const uint32_t> values, std::string* out);
void EncodeFloats(absl::Span<const float> values, std::string* out);
void EncodeRowIds(absl::Span<const RowId> values, std::string* out);

// The number of elements of `element_bytes` each in `bytes` bytes, when there are `count`.
absl::StatusOr<int64_t> CheckCount(absl::string_view field, int64_t bytes, int64_t element_bytes,
                                   Count count);
// InvalidArgument with a reason word: "<field> <problem>".
absl::Status Refusal(absl::string_view reason, absl::string_view field, absl::string_view problem);

}  // namespace dslide::wire
