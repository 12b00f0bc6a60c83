// Matrices on the wire: v1::Matrix <-> rows of numbers, with every size checked before anything is
// allocated. All errors are InvalidArgument with a reason word (reason_words.h).

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/protocol/replies.h"
#include "core/spec/model_spec.h"
#include "core/wire/arrays/array_codec.h"
#include "dslide/v1/common.pb.h"

namespace dslide::wire {

// A matrix without its zeros has at most so many elements: what a message holds of any other
// matrix.
inline constexpr int64_t kMaxSparseElements = kMaxMessageBytes / 2;

// A matrix of `rows` and `cols` within the given counts (each at most kMaxMatrixSide), whose data
// has exactly their size, or that of the elements that are present. An unspecified element type is
// refused.
absl::StatusOr<MatrixReply> DecodeMatrix(absl::string_view field, const v1::Matrix& matrix,
                                         Count rows, Count cols, Floats floats);

struct MatrixFormat {
  ActivationType type = ActivationType::kF32;
  // Without the elements whose bits are all 0, where that is shorter. A -0 stays.
  bool sparse = false;
};
// data: [rows, cols].
void EncodeMatrix(int64_t rows, int64_t cols, absl::Span<const float> data, MatrixFormat format,
                  v1::Matrix* out);

absl::StatusOr<ActivationType> DecodeElementType(absl::string_view field, v1::ElementType type);
v1::ElementType EncodeElementType(ActivationType type);

// The sides that the matrix states, whatever its data.
absl::Status CheckMatrixSides(absl::string_view field, const v1::Matrix& matrix, Count rows,
                              Count cols);

}  // namespace dslide::wire
