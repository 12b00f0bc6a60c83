#include "core/wire/bulk/row_block_shape.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/matrix_codec.h"

namespace dslide::wire {

absl::StatusOr<RowBlockShape> ShapeOf(absl::string_view field, const RowBlockFields& block,
                                      int64_t max_rows) {
  RowBlockShape shape;
  ASSIGN_OR_RETURN(shape.rows, CheckCount(absl::StrCat(field, ".row_ids"), block.row_ids.size, 4,
                                          Count::AtMost(max_rows)));
  shape.has_bias = block.biases.size > 0;
  if (shape.rows == 0 && !block.has_values) {
    if (!shape.has_bias) return shape;
    return Refusal(reason::kBadSize, absl::StrCat(field, ".biases"), "is set without rows");
  }
  const std::string values = absl::StrCat(field, ".values");
  const v1::Matrix& matrix = block.matrix;
  ASSIGN_OR_RETURN(shape.type, DecodeElementType(values, matrix.element_type()));
  RETURN_IF_ERROR(
      CheckMatrixSides(values, matrix, Count::Exactly(shape.rows), {1, kMaxMatrixSide}));
  shape.dim = matrix.cols();
  if (!matrix.present().empty()) {
    return Refusal(reason::kBadSize, absl::StrCat(values, ".present"),
                   "is set, rows of a gather or scatter travel with all of their numbers");
  }
  RETURN_IF_ERROR(CheckCount(absl::StrCat(values, ".data"), block.data.size,
                             ElementBytes(shape.type), Count::Exactly(shape.rows * shape.dim))
                      .status());
  if (shape.has_bias) {
    RETURN_IF_ERROR(
        CheckCount(absl::StrCat(field, ".biases"), block.biases.size, 4, Count::Exactly(shape.rows))
            .status());
  }
  return shape;
}

absl::Status CheckAscendingIds(absl::string_view field, const std::vector<RowId>& ids,
                               size_t first) {
  for (size_t i = first; i < ids.size(); ++i) {
    if (ids[i].value() >= kMaxTableRows) {
      return Refusal(reason::kBadRowId, field,
                     absl::StrCat("has row ", ids[i].value(), " at position ", i - first,
                                  ", must be below ", kMaxTableRows));
    }
    if (i > 0 && ids[i] <= ids[i - 1]) {
      return Refusal(reason::kNotAscending, field,
                     absl::StrCat("has row ", ids[i].value(), " after row ", ids[i - 1].value(),
                                  " at position ", i - first,
                                  ", must be strictly ascending over the whole stream: sort the "
                                  "ids and merge equal ones"));
    }
  }
  return absl::OkStatus();
}

}  // namespace dslide::wire
