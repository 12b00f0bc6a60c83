#include "core/wire/arrays/explicit_rows_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bfloat16.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/arrays/sample_ids.h"

namespace dslide::wire {
namespace {

std::string Path(absl::string_view message, absl::string_view field) {
  return message.empty() ? std::string(field) : absl::StrCat(message, ".", field);
}

// `n` numbers in either width; none where there are no bytes.
absl::StatusOr<std::vector<float>> DecodeNumbers(const std::string& field, const std::string& bytes,
                                                 int64_t n) {
  if (bytes.empty()) return std::vector<float>();
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t half = n * static_cast<int64_t>(sizeof(BFloat16));
  if (size != half) {
    if (size == 2 * half) return DecodeFloats(field, bytes, Count::Exactly(n), Floats::kBounded);
    return Refusal(reason::kBadSize, field,
                   absl::StrCat("has ", size, " bytes for ", n, " rows, must have ", 2 * half,
                                " (f32) or ", half, " (bf16)"));
  }
  ASSIGN_OR_RETURN(const std::vector<uint32_t> halves, DecodeU16s(field, bytes, Count::Exactly(n)));
  std::vector<uint32_t> words(halves.size());
  for (size_t i = 0; i < halves.size(); ++i) words[i] = halves[i] << 16;
  std::string wide;
  EncodeU32s(words, &wide);
  return DecodeFloats(field, wide, Count::Exactly(n), Floats::kBounded);
}

void EncodeNumbers(const std::vector<float>& values, float omitted, ActivationType type,
                   std::string* out) {
  out->clear();
  const auto is_omitted = [omitted](float value) { return value == omitted; };
  if (std::all_of(values.begin(), values.end(), is_omitted)) return;
  if (type == ActivationType::kF32) return EncodeFloats(values, out);
  std::vector<BFloat16> halves(values.size());
  FloatsToBFloat16(values.data(), static_cast<int64_t>(values.size()), halves.data());
  std::vector<uint32_t> words(values.size());
  for (size_t i = 0; i < halves.size(); ++i) words[i] = halves[i].bits;
  EncodeU16s(words, out);
}

}  // namespace

absl::StatusOr<ExplicitRows<RowId>> DecodeExplicitRows(const ExplicitRowFields& fields,
                                                       int64_t batch) {
  ExplicitRows<RowId> decoded;
  const std::string offsets_path = Path(fields.message, fields.logit_offsets_name);
  const std::string weights_path = Path(fields.message, fields.weights_name);
  if (fields.ids.empty()) {
    if (fields.logit_offsets.empty() && fields.weights.empty()) return decoded;
    return Refusal(reason::kBadSize, fields.weights.empty() ? offsets_path : weights_path,
                   absl::StrCat("is there without ", fields.ids_name));
  }
  const std::string none;
  ASSIGN_OR_RETURN(SampleIds ids, DecodeSampleIds({.message = fields.message,
                                                   .offsets_name = "",
                                                   .ids_name = "",
                                                   .packed_name = fields.ids_name,
                                                   .offsets = none,
                                                   .ids = none,
                                                   .packed = fields.ids},
                                                  batch, kMaxMessageNumbers));
  decoded.offsets = std::move(ids.offsets);
  decoded.rows = std::move(ids.rows);
  const auto n = static_cast<int64_t>(decoded.rows.size());
  ASSIGN_OR_RETURN(decoded.logit_offsets, DecodeNumbers(offsets_path, fields.logit_offsets, n));
  ASSIGN_OR_RETURN(decoded.weights, DecodeNumbers(weights_path, fields.weights, n));
  for (size_t i = 0; i < decoded.weights.size(); ++i) {
    if (decoded.weights[i] >= 0.0f && decoded.weights[i] <= kMaxExplicitWeight) continue;
    return Refusal(reason::kOutOfRange, weights_path,
                   absl::StrCat("has ", decoded.weights[i], " at position ", i, ", must be in [0, ",
                                kMaxExplicitWeight, "]"));
  }
  return decoded;
}

void EncodeExplicitRows(const ExplicitRows<RowId>& rows, ActivationType type,
                        const ExplicitRowBytes& out) {
  if (rows.empty()) return;
  EncodePackedIds(rows.offsets, rows.rows, out.ids);
  EncodeNumbers(rows.logit_offsets, 0.0f, type, out.logit_offsets);
  if (out.weights != nullptr) EncodeNumbers(rows.weights, 1.0f, type, out.weights);
}

}  // namespace dslide::wire
