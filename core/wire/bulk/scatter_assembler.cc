#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/protocol/reason_words.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/bulk/row_block_shape.h"
#include "core/wire/envelope_codec.h"

namespace dslide::wire {
namespace {

absl::StatusOr<ScatterMode> DecodeScatterMode(v1::ScatterMode mode) {
  switch (mode) {
    case v1::SCATTER_MODE_GRADIENT:
      return ScatterMode::kGradient;
    case v1::SCATTER_MODE_ADD:
      return ScatterMode::kAdd;
    case v1::SCATTER_MODE_ASSIGN:
      return ScatterMode::kAssign;
    default:
      return Refusal(reason::kBadEnum, "mode",
                     absl::StrCat("is ", static_cast<int>(mode),
                                  ", must be SCATTER_MODE_GRADIENT, _ADD or _ASSIGN"));
  }
}

// The refusal of the first number that is not finite or beyond every model's bound, `first` numbers
// into its field.
absl::Status RefuseNumber(absl::string_view field, const char* numbers, int64_t n, int64_t first) {
  for (int64_t i = 0; i < n; ++i) {
    const char* const at = numbers + i * static_cast<int64_t>(sizeof(float));
    if (MaxMagnitude(at, 1) <= kMaxMagnitude) continue;
    float value;
    std::memcpy(&value, at, sizeof(value));
    return Refusal(reason::kNotFinite, field,
                   absl::StrCat("has ", value, " at position ", first + i,
                                ", must be finite and at most ", kMaxMagnitude));
  }
  return absl::InternalError("a vector check and its elements disagree");
}

}  // namespace

absl::Status ScatterAssembler::AddFirst(const v1::ScatterRequest& chunk) {
  if (!chunk.has_envelope()) {
    return Refusal(reason::kMissingField, "envelope", "must be in the first message");
  }
  ASSIGN_OR_RETURN(command_.envelope, DecodeEnvelope(chunk.envelope()));
  has_envelope_ = true;
  RETURN_IF_ERROR(CheckName("table", chunk.table()));
  command_.table = chunk.table();
  ASSIGN_OR_RETURN(command_.mode, DecodeScatterMode(chunk.mode()));
  if (chunk.has_learning_rate()) command_.learning_rate = chunk.learning_rate();
  total_rows_ = chunk.total_rows();
  if (total_rows_ >= 0 && total_rows_ <= kMaxBulkRows) return absl::OkStatus();
  return Refusal(reason::kOutOfRange, "total_rows",
                 absl::StrCat("is ", total_rows_, ", must be in [0, ", kMaxBulkRows, "]"));
}

absl::Status ScatterAssembler::AddIds(const BulkBytes& bytes, int64_t count) {
  std::vector<RowId>& ids = rows_->rows;
  const size_t before = ids.size();
  ids.resize(before + static_cast<size_t>(count));
  bytes.CopyTo(reinterpret_cast<char*>(ids.data() + before));
  return CheckAscendingIds("rows.row_ids", ids, before);
}

absl::Status ScatterAssembler::TakeRows(const char* from, int64_t first, int64_t count,
                                        ActivationType type) {
  const int64_t dim = rows_->dim;
  float most = 0;
  if (type == ActivationType::kF32) {
    most = MaxMagnitude(from, count * dim);
    if (!(most <= kMaxMagnitude)) {
      return RefuseNumber("rows.values.data", from, count * dim, first * dim);
    }
  } else {
    std::vector<float> wide(static_cast<size_t>(dim));
    const auto* const bytes = reinterpret_cast<const char*>(wide.data());
    for (int64_t i = 0; i < count; ++i) {
      WidenBFloat16(from + i * dim * ElementBytes(type), dim, wide.data());
      const float row_most = MaxMagnitude(bytes, dim);
      if (!(row_most <= kMaxMagnitude)) {
        return RefuseNumber("rows.values.data", bytes, dim, (first + i) * dim);
      }
      most = std::max(most, row_most);
    }
  }
  rows_->max_value = std::max(rows_->max_value, most);
  for (int64_t i = 0; i < count; ++i) {
    rows_->values.push_back(from + i * dim * ElementBytes(type));
    rows_->types.push_back(type);
  }
  return absl::OkStatus();
}

absl::Status ScatterAssembler::AddValues(const BulkBytes& data, ActivationType type,
                                         int64_t count) {
  const int64_t row_bytes = rows_->dim * ElementBytes(type);
  RowCursor cursor(data.pieces, row_bytes);
  for (int64_t i = 0; i < count;) {
    const char* from = nullptr;
    int64_t together = cursor.Together(count - i, &from);
    if (together == 0) {
      std::string& whole = rows_->joined.emplace_back(static_cast<size_t>(row_bytes), '\0');
      cursor.CopyCut(whole.data());
      from = whole.data();
      together = 1;
    }
    RETURN_IF_ERROR(TakeRows(from, i, together, type));
    i += together;
  }
  return absl::OkStatus();
}

absl::Status ScatterAssembler::AddBiases(const BulkBytes& bytes, int64_t count) {
  std::vector<float>& biases = rows_->biases;
  const size_t before = biases.size();
  biases.resize(before + static_cast<size_t>(count));
  auto* const added = reinterpret_cast<char*>(biases.data() + before);
  bytes.CopyTo(added);
  const float most = MaxMagnitude(added, count);
  if (!(most <= kMaxMagnitude)) return RefuseNumber("rows.biases", added, count, 0);
  rows_->max_bias = std::max(rows_->max_bias, most);
  return absl::OkStatus();
}

absl::Status ScatterAssembler::AddRows(const RowBlockFields& rows) {
  ASSIGN_OR_RETURN(const RowBlockShape shape, ShapeOf("rows", rows, kMaxBulkRows));
  const auto before = static_cast<int64_t>(rows_->rows.size());
  if (before + shape.rows > total_rows_) {
    return Refusal(
        reason::kBadSize, "rows",
        absl::StrCat("are ", before + shape.rows, " by now, but total_rows is ", total_rows_));
  }
  if (before == 0) {
    rows_->dim = shape.dim;
    rows_->rows.reserve(total_rows_);
    rows_->values.reserve(total_rows_);
    rows_->types.reserve(total_rows_);
  }
  if (shape.rows == 0) return absl::OkStatus();
  if (shape.dim != rows_->dim) {
    return Refusal(reason::kBadSize, "rows",
                   absl::StrCat("has ", shape.dim, " columns after messages with ", rows_->dim));
  }
  if (before > 0 && shape.has_bias == rows_->biases.empty()) {
    return Refusal(reason::kWrongBiases, "rows", "has biases in some messages and not in others");
  }
  RETURN_IF_ERROR(AddIds(rows.row_ids, shape.rows));
  RETURN_IF_ERROR(AddValues(rows.data, shape.type, shape.rows));
  return shape.has_bias ? AddBiases(rows.biases, shape.rows) : absl::OkStatus();
}

absl::Status ScatterAssembler::Add(absl::Span<const absl::string_view> message,
                                   std::shared_ptr<const void> memory) {
  v1::ScatterRequest rest;
  RowBlockFields rows;
  RETURN_IF_ERROR(SplitScatterRequest(message, &rest, &rows));
  if (!has_envelope_) {
    RETURN_IF_ERROR(AddFirst(rest));
  } else if (rest.has_envelope() || !rest.table().empty() ||
             rest.mode() != v1::SCATTER_MODE_UNSPECIFIED || rest.total_rows() != 0 ||
             rest.has_learning_rate()) {
    return Refusal(reason::kOutOfRange, "envelope, table, mode, total_rows and learning_rate",
                   "belong into the first message of the stream only");
  }
  for (const absl::string_view piece : message) bytes_ += static_cast<int64_t>(piece.size());
  if (bytes_ > max_bytes_) {
    return Refusal(reason::kOverLimit, "scatter",
                   absl::StrCat("has more than ", max_bytes_, " bytes: send it in several calls"));
  }
  rows_->memory.push_back(std::move(memory));
  return AddRows(rows);
}

absl::Status ScatterAssembler::Add(const v1::ScatterRequest& chunk) {
  // Shared by the pieces and the command.
  auto bytes = std::make_shared<const std::string>(chunk.SerializeAsString());
  const absl::string_view piece(bytes->data(), bytes->size());
  return Add(absl::MakeConstSpan(&piece, 1), bytes);
}

absl::StatusOr<ScatterCommand> ScatterAssembler::Finish() && {
  if (!has_envelope_) return Refusal(reason::kMissingField, "scatter", "has no message");
  const auto received = static_cast<int64_t>(rows_->rows.size());
  if (received != total_rows_) {
    return Refusal(
        reason::kIncomplete, "scatter",
        absl::StrCat("ended after ", received, " of ", total_rows_, " rows: send it again"));
  }
  command_.received = std::move(rows_);
  return std::move(command_);
}

}  // namespace dslide::wire
