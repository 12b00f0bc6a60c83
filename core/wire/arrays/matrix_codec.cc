#include "core/wire/arrays/matrix_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/bfloat16.h"
#include "core/base/bit_rows.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/protocol/reason_words.h"

namespace dslide::wire {
namespace {

// Elements are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(BFloat16) == 2);

constexpr int64_t kBitsOfByte = 8;

absl::Status CheckSide(absl::string_view field, absl::string_view side, int64_t value,
                       Count count) {
  if (value > kMaxMatrixSide) {
    return Refusal(reason::kOverLimit, field,
                   absl::StrCat("has ", value, " ", side, ", may have ", kMaxMatrixSide));
  }
  if (value < count.low || value > count.high) {
    return Refusal(reason::kBadSize, field,
                   absl::StrCat("has ", value, " ", side, ", must have ", CountText(count)));
  }
  return absl::OkStatus();
}

// data: [count], of the given type.
absl::StatusOr<std::vector<float>> DecodeElements(absl::string_view field, const std::string& data,
                                                  ActivationType type, int64_t count,
                                                  Floats floats) {
  if (type == ActivationType::kF32) {
    return DecodeFloats(field, data, Count::Exactly(count), floats);
  }
  RETURN_IF_ERROR(
      CheckCount(field, static_cast<int64_t>(data.size()), 2, Count::Exactly(count)).status());
  // A protobuf string is not aligned for 2-byte elements by contract.
  std::vector<BFloat16> halves(count);
  if (count > 0) std::memcpy(halves.data(), data.data(), data.size());
  std::vector<float> elements(count);
  BFloat16ToFloats(halves.data(), count, elements.data());
  RETURN_IF_ERROR(CheckFloats(field, elements, floats));
  return elements;
}

void EncodeElements(absl::Span<const float> elements, ActivationType type, std::string* out) {
  if (type == ActivationType::kF32) return EncodeFloats(elements, out);
  std::vector<BFloat16> halves(elements.size());
  FloatsToBFloat16(elements.data(), static_cast<int64_t>(elements.size()), halves.data());
  out->assign(reinterpret_cast<const char*>(halves.data()), 2 * halves.size());
}

// Of how many elements the bits say that they are there.
absl::StatusOr<int64_t> CountPresent(absl::string_view field, const std::string& bits, int64_t rows,
                                     int64_t cols) {
  if (rows * cols > kMaxSparseElements) {
    return Refusal(reason::kOverLimit, field,
                   absl::StrCat("is of a matrix of ", rows * cols, " elements, may be of ",
                                kMaxSparseElements));
  }
  const int64_t stride = BytesOfBits(cols);
  RETURN_IF_ERROR(
      CheckCount(field, static_cast<int64_t>(bits.size()), 1, Count::Exactly(rows * stride))
          .status());
  const int64_t in_last = cols - (stride - 1) * kBitsOfByte;
  int64_t present = 0;
  const auto* mask = reinterpret_cast<const uint8_t*>(bits.data());
  for (int64_t row = 0; row < rows; ++row, mask += stride) {
    for (int64_t byte = 0; byte < stride; ++byte) present += std::popcount(mask[byte]);
    if (mask[stride - 1] >> in_last != 0) {
      return Refusal(
          reason::kOutOfRange, field,
          absl::StrCat("has a bit behind column ", cols - 1, " in row ", row, ", must be 0 there"));
    }
  }
  return present;
}

// Rows whose bits are whole bytes are one run.
struct Runs {
  Runs(int64_t rows, int64_t cols)
      : count(cols % kBitsOfByte == 0 ? 1 : rows), length(rows * cols / count) {}
  int64_t bytes() const { return BytesOfBits(length); }

  int64_t count;
  int64_t length;
};

// elements: those that are there. Returns [rows, cols].
std::vector<float> Expand(absl::Span<const float> elements, const std::string& bits, int64_t rows,
                          int64_t cols) {
  std::vector<float> all(rows * cols);
  const Runs runs(rows, cols);
  const auto* mask = reinterpret_cast<const uint8_t*>(bits.data());
  const float* next = elements.data();
  for (int64_t run = 0; run < runs.count; ++run, mask += runs.bytes()) {
    next += UnpackNonzero(next, mask, runs.length, all.data() + run * runs.length);
  }
  return all;
}

// Whether it was shorter than all elements are, and is in `out`.
bool EncodePresent(int64_t rows, int64_t cols, absl::Span<const float> data, ActivationType type,
                   v1::Matrix* out) {
  if (rows * cols > kMaxSparseElements) return false;
  const Runs runs(rows, cols);
  std::string bits(runs.count * runs.bytes(), '\0');
  auto* mask = reinterpret_cast<uint8_t*>(bits.data());
  std::vector<float> elements(data.size());
  int64_t count = 0;
  for (int64_t run = 0; run < runs.count; ++run, mask += runs.bytes()) {
    count +=
        PackNonzero(data.data() + run * runs.length, runs.length, mask, elements.data() + count);
  }
  const int64_t element_bytes = type == ActivationType::kF32 ? 4 : 2;
  const auto all_bytes = static_cast<int64_t>(data.size()) * element_bytes;
  if (static_cast<int64_t>(bits.size()) + count * element_bytes >= all_bytes) return false;
  elements.resize(count);
  EncodeElements(elements, type, out->mutable_data());
  *out->mutable_present() = std::move(bits);
  return true;
}

}  // namespace

absl::Status CheckMatrixSides(absl::string_view field, const v1::Matrix& matrix, Count rows,
                              Count cols) {
  RETURN_IF_ERROR(CheckSide(field, "rows", matrix.rows(), rows));
  return CheckSide(field, "columns", matrix.cols(), cols);
}

absl::StatusOr<MatrixReply> DecodeMatrix(absl::string_view field, const v1::Matrix& matrix,
                                         Count rows, Count cols, Floats floats) {
  ASSIGN_OR_RETURN(const ActivationType type, DecodeElementType(field, matrix.element_type()));
  RETURN_IF_ERROR(CheckMatrixSides(field, matrix, rows, cols));
  MatrixReply decoded = {
      .rows = matrix.rows(), .cols = matrix.cols(), .sparse = !matrix.present().empty()};
  int64_t count = decoded.rows * decoded.cols;  // at most 2^32
  if (decoded.sparse) {
    ASSIGN_OR_RETURN(count, CountPresent(absl::StrCat(field, ".present"), matrix.present(),
                                         decoded.rows, decoded.cols));
  }
  ASSIGN_OR_RETURN(decoded.data, DecodeElements(absl::StrCat(field, ".data"), matrix.data(), type,
                                                count, floats));
  if (decoded.sparse) {
    decoded.data = Expand(decoded.data, matrix.present(), decoded.rows, decoded.cols);
  }
  return decoded;
}

void EncodeMatrix(int64_t rows, int64_t cols, absl::Span<const float> data, MatrixFormat format,
                  v1::Matrix* out) {
  out->set_rows(static_cast<uint32_t>(rows));
  out->set_cols(static_cast<uint32_t>(cols));
  out->set_element_type(EncodeElementType(format.type));
  if (format.sparse && EncodePresent(rows, cols, data, format.type, out)) return;
  EncodeElements(data, format.type, out->mutable_data());
}

absl::StatusOr<ActivationType> DecodeElementType(absl::string_view field, v1::ElementType type) {
  switch (type) {
    case v1::ELEMENT_TYPE_F32:
      return ActivationType::kF32;
    case v1::ELEMENT_TYPE_BF16:
      return ActivationType::kBf16;
    default:
      return Refusal(reason::kBadEnum, field,
                     absl::StrCat("has element type ", static_cast<int>(type),
                                  ", must be ELEMENT_TYPE_F32 or ELEMENT_TYPE_BF16"));
  }
}

v1::ElementType EncodeElementType(ActivationType type) {
  return type == ActivationType::kF32 ? v1::ELEMENT_TYPE_F32 : v1::ELEMENT_TYPE_BF16;
}

}  // namespace dslide::wire
