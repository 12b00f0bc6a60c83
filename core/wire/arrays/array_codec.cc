#include "core/wire/arrays/array_codec.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/protocol/reason_words.h"

namespace dslide::wire {
namespace {

// Arrays are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(RowId) == 4);

template <typename T>
std::vector<T> Copied(const std::string& bytes, int64_t n) {
  std::vector<T> values(n);
  if (n > 0) std::memcpy(values.data(), bytes.data(), n * sizeof(T));
  return values;
}

template <typename T>
void Store(absl::Span<const T> values, std::string* out) {
  out->assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

std::string CountText(Count count) {
  if (count.low == count.high) return absl::StrCat(count.low);
  return absl::StrCat(count.low, " to ", count.high);
}

absl::Status Refusal(absl::string_view reason, absl::string_view field, absl::string_view problem) {
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason,
                          absl::StrCat(field, " ", problem));
}

absl::StatusOr<int64_t> CheckCount(absl::string_view field, int64_t bytes, int64_t element_bytes,
                                   Count count) {
  if (bytes % element_bytes != 0) {
    return Refusal(reason::kBadSize, field,
                   absl::StrCat("has ", bytes, " bytes, must be a multiple of ", element_bytes));
  }
  const int64_t n = bytes / element_bytes;
  if (n < count.low || n > count.high) {
    return Refusal(
        n > count.high && count.low != count.high ? reason::kOverLimit : reason::kBadSize, field,
        absl::StrCat("has ", n, " elements, must have ", CountText(count)));
  }
  return n;
}

absl::StatusOr<std::vector<uint32_t>> DecodeU32s(absl::string_view field, const std::string& bytes,
                                                 Count count) {
  ASSIGN_OR_RETURN(const int64_t n,
                   CheckCount(field, static_cast<int64_t>(bytes.size()), 4, count));
  return Copied<uint32_t>(bytes, n);
}

absl::StatusOr<std::vector<uint32_t>> DecodeU16s(absl::string_view field, const std::string& bytes,
                                                 Count count) {
  ASSIGN_OR_RETURN(const int64_t n,
                   CheckCount(field, static_cast<int64_t>(bytes.size()), 2, count));
  const std::vector<uint16_t> halves = Copied<uint16_t>(bytes, n);
  return std::vector<uint32_t>(halves.begin(), halves.end());
}

absl::Status CheckFloats(absl::string_view field, absl::Span<const float> values, Floats floats) {
  if (floats == Floats::kAny ||
      AllWithin(values.data(), static_cast<int64_t>(values.size()), kMaxMagnitude)) {
    return absl::OkStatus();
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!AllWithin(&values[i], 1, kMaxMagnitude)) {
      return Refusal(reason::kNotFinite, field,
                     absl::StrCat("has ", values[i], " at position ", i,
                                  ", must be finite and at most ", kMaxMagnitude));
    }
  }
  return absl::InternalError("a vector check and its elements disagree");
}

absl::StatusOr<std::vector<float>> DecodeFloats(absl::string_view field, const std::string& bytes,
                                                Count count, Floats floats) {
  ASSIGN_OR_RETURN(const int64_t n,
                   CheckCount(field, static_cast<int64_t>(bytes.size()), 4, count));
  std::vector<float> values = Copied<float>(bytes, n);
  RETURN_IF_ERROR(CheckFloats(field, values, floats));
  return values;
}

absl::StatusOr<std::vector<RowId>> DecodeRowIds(absl::string_view field, const std::string& bytes,
                                                Count count) {
  ASSIGN_OR_RETURN(const int64_t n,
                   CheckCount(field, static_cast<int64_t>(bytes.size()), 4, count));
  std::vector<RowId> rows = Copied<RowId>(bytes, n);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].value() >= kMaxTableRows) {
      return Refusal(reason::kBadRowId, field,
                     absl::StrCat("has row ", rows[i].value(), " at position ", i,
                                  ", must be below ", kMaxTableRows));
    }
  }
  return rows;
}

absl::StatusOr<std::vector<RowId>> DecodeAscendingRowIds(absl::string_view field,
                                                         const std::string& bytes, Count count) {
  ASSIGN_OR_RETURN(std::vector<RowId> rows, DecodeRowIds(field, bytes, count));
  const uint32_t whole[] = {0, static_cast<uint32_t>(rows.size())};
  RETURN_IF_ERROR(CheckAscendingInSamples(field, whole, rows));
  return rows;
}

absl::StatusOr<std::vector<uint32_t>> DecodeOffsets(absl::string_view field,
                                                    const std::string& bytes, Count batch) {
  ASSIGN_OR_RETURN(std::vector<uint32_t> offsets,
                   DecodeU32s(field, bytes, {batch.low + 1, batch.high + 1}));
  if (offsets[0] != 0) {
    return Refusal(reason::kBadOffsets, field,
                   absl::StrCat("starts with ", offsets[0], ", must start with 0"));
  }
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      return Refusal(reason::kBadOffsets, field,
                     absl::StrCat("falls from ", offsets[i - 1], " to ", offsets[i],
                                  " at position ", i, ", must ascend"));
    }
  }
  return offsets;
}

absl::Status CheckAscendingInSamples(absl::string_view field, absl::Span<const uint32_t> offsets,
                                     absl::Span<const RowId> rows) {
  for (size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
    for (uint32_t i = offsets[sample] + 1; i < offsets[sample + 1]; ++i) {
      if (rows[i] <= rows[i - 1]) {
        return Refusal(reason::kNotAscending, field,
                       absl::StrCat("has row ", rows[i].value(), " after row ", rows[i - 1].value(),
                                    " at position ", i,
                                    ", must be strictly ascending: sort the ids and merge equal "
                                    "ones"));
      }
    }
  }
  return absl::OkStatus();
}

void EncodeU32s(absl::Span<const uint32_t> values, std::string* out) { Store(values, out); }
void EncodeU16s(absl::Span<const uint32_t> values, std::string* out) {
  const std::vector<uint16_t> halves(values.begin(), values.end());
  Store(absl::MakeConstSpan(halves), out);
}
void EncodeFloats(absl::Span<const float> values, std::string* out) { Store(values, out); }
void EncodeRowIds(absl::Span<const RowId> values, std::string* out) { Store(values, out); }

}  // namespace dslide::wire
