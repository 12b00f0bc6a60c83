#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/bulk/row_block_shape.h"
#include "core/wire/row_codec.h"

namespace dslide::wire {
namespace {

// No answer of a shard is larger: memory is taken before the rows are there.
constexpr int64_t kMaxAnswerBytes = int64_t{768} << 20;

absl::Status Malformed(absl::string_view why) {
  return absl::InternalError(absl::StrCat("malformed answer: ", why));
}

}  // namespace

absl::Status GatherAssembler::AddFirst(const v1::GatherResponse& chunk) {
  const int64_t total = chunk.total_rows();
  if (total < 0 || total > kMaxBulkRows) return Malformed(absl::StrCat("total_rows is ", total));
  if (into_target_ && total != static_cast<int64_t>(target_.rows.size())) {
    return Malformed(
        absl::StrCat(total, " rows for the ", target_.rows.size(), " that were asked for"));
  }
  total_rows_ = total;
  if (chunk.sample_offsets().empty()) return absl::OkStatus();
  auto offsets = DecodeOffsets("sample_offsets", chunk.sample_offsets(), {1, kMaxBatch});
  if (!offsets.ok()) return BadAnswer(offsets.status());
  reply_.sample_offsets = *std::move(offsets);
  auto rows = DecodeRowIds("sample_row_ids", chunk.sample_row_ids(),
                           Count::Exactly(reply_.sample_offsets.back()));
  if (!rows.ok()) return BadAnswer(rows.status());
  reply_.sample_rows = *std::move(rows);
  return absl::OkStatus();
}

absl::Status GatherAssembler::MakeRoom(int64_t dim, bool has_bias) {
  RowBlock& block = reply_.rows;
  if (received_ > 0) {
    if (dim != block.dim) {
      return Malformed(absl::StrCat("rows have ", dim, " columns after messages with ", block.dim));
    }
    return has_bias == has_bias_ ? absl::OkStatus()
                                 : Malformed("biases in some messages and not in others");
  }
  block.dim = dim;
  has_bias_ = has_bias;
  if (into_target_) {
    if (dim != target_.dim) {
      return Malformed(
          absl::StrCat("rows have ", dim, " columns, there is room for ", target_.dim));
    }
    values_ = target_.values.data();
    biases_ = has_bias && !target_.biases.empty() ? target_.biases.data() : nullptr;
    return absl::OkStatus();
  }
  if (total_rows_ * (dim + 2) * 4 > kMaxAnswerBytes) {
    return Malformed(absl::StrCat(total_rows_, " rows of ", dim, " numbers"));
  }
  block.values.resize(static_cast<size_t>(total_rows_ * dim));
  values_ = block.values.data();
  if (has_bias) {
    block.biases.resize(static_cast<size_t>(total_rows_));
    biases_ = block.biases.data();
  }
  return absl::OkStatus();
}

absl::Status GatherAssembler::AddIds(const BulkBytes& bytes, int64_t count) {
  std::vector<RowId>& ids = reply_.rows.rows;
  const size_t before = into_target_ ? 0 : ids.size();
  ids.resize(before + static_cast<size_t>(count));
  bytes.CopyTo(reinterpret_cast<char*>(ids.data() + before));
  if (into_target_) {
    const absl::Span<const RowId> wanted = target_.rows.subspan(received_, count);
    if (std::equal(ids.begin(), ids.end(), wanted.begin())) return absl::OkStatus();
    return Malformed("its rows are not those that were asked for");
  }
  const absl::Status good = CheckAscendingIds("rows.row_ids", ids, before);
  return good.ok() ? good : BadAnswer(good);
}

void GatherAssembler::CopyValues(const RowBlockFields& rows, ActivationType type, int64_t count) {
  const int64_t dim = reply_.rows.dim;
  const int64_t row_bytes = dim * ElementBytes(type);
  RowCursor cursor(rows.data.pieces, row_bytes);
  std::string cut;
  for (int64_t i = 0; i < count;) {
    const char* from = nullptr;
    int64_t together = cursor.Together(count - i, &from);
    if (together == 0) {
      cut.resize(static_cast<size_t>(row_bytes));
      cursor.CopyCut(cut.data());
      from = cut.data();
      together = 1;
    }
    for (const int64_t end = i + together; i < end; ++i, from += row_bytes) {
      float* const to = values_ + Place(received_ + i) * dim;
      if (type == ActivationType::kF32) {
        std::memcpy(to, from, static_cast<size_t>(row_bytes));
      } else {
        WidenBFloat16(from, dim, to);
      }
    }
  }
}

void GatherAssembler::CopyBiases(const BulkBytes& bytes, int64_t count) {
  if (biases_ == nullptr) return;
  std::vector<float> copied(static_cast<size_t>(count));
  bytes.CopyTo(reinterpret_cast<char*>(copied.data()));
  for (int64_t i = 0; i < count; ++i) biases_[Place(received_ + i)] = copied[i];
}

absl::Status GatherAssembler::Add(absl::Span<const absl::string_view> message) {
  v1::GatherResponse rest;
  RowBlockFields rows;
  if (const absl::Status split = SplitGatherResponse(message, &rest, &rows); !split.ok()) {
    return BadAnswer(split);
  }
  if (total_rows_ < 0) RETURN_IF_ERROR(AddFirst(rest));
  const absl::StatusOr<RowBlockShape> shape = ShapeOf("rows", rows, kMaxMatrixSide);
  if (!shape.ok()) return BadAnswer(shape.status());
  if (shape->rows == 0) {
    if (received_ == 0) reply_.rows.dim = shape->dim;
    return absl::OkStatus();
  }
  if (received_ + shape->rows > total_rows_) {
    return Malformed(absl::StrCat("more than the announced ", total_rows_, " rows"));
  }
  RETURN_IF_ERROR(MakeRoom(shape->dim, shape->has_bias));
  RETURN_IF_ERROR(AddIds(rows.row_ids, shape->rows));
  CopyValues(rows, shape->type, shape->rows);
  if (shape->has_bias) CopyBiases(rows.biases, shape->rows);
  received_ += shape->rows;
  return absl::OkStatus();
}

absl::Status GatherAssembler::Add(const v1::GatherResponse& chunk) {
  const std::string bytes = chunk.SerializeAsString();
  const absl::string_view piece(bytes.data(), bytes.size());
  return Add(absl::MakeConstSpan(&piece, 1));
}

absl::StatusOr<GatherReply> GatherAssembler::Finish() && {
  if (received_ != total_rows_) {
    return Malformed(absl::StrCat(received_, " of ", total_rows_, " rows arrived"));
  }
  if (into_target_) reply_.rows.rows.clear();
  return std::move(reply_);
}

}  // namespace dslide::wire
