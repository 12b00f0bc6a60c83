#include "client/export/row_fields.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bfloat16.h"
#include "core/base/status_macros.h"
#include "core/engine/rows/record_digest.h"
#include "core/engine/rows/row_reader.h"

namespace dslide {
namespace {

constexpr int64_t kComputed = -1;

}  // namespace

RowFields::RowFields(const TableSpec& table, bool with_state, std::unique_ptr<RowStore> store)
    : table_(table),
      layout_(RowLayout::Of(table)),
      with_state_(with_state),
      store_(std::move(store)),
      joined_(static_cast<size_t>(layout_.record_bytes), '\0') {
  const auto number = [](bool halves) { return halves ? TensorType::kBf16 : TensorType::kF32; };
  const auto bytes_of = [&](bool halves) { return layout_.dim * (halves ? 2 : 4); };
  const bool averaged = IsAveraged(table);
  const bool halves = layout_.bf16_weights();
  const int64_t tail = layout_.tail_offset;
  average_.Resize(store_->stride());
  if (averaged) {
    Add("weight", TensorType::kF32, {layout_.dim}, {kComputed, 4 * layout_.dim});
    if (layout_.has_bias) Add("bias", TensorType::kF32, {}, {kComputed, 4});
  } else {
    Add("weight", number(halves), {layout_.dim}, {0, bytes_of(halves)});
    if (layout_.has_bias) Add("bias", TensorType::kF32, {}, {tail, 4});
  }
  if (!with_state) return;
  if (averaged) {
    Add("raw_weight", number(halves), {layout_.dim}, {0, bytes_of(halves)});
    if (layout_.has_bias) Add("raw_bias", TensorType::kF32, {}, {tail, 4});
  }
  for (int64_t v = 0; v < layout_.state.vectors; ++v) {
    Add(absl::StrCat("state.", v), number(layout_.bf16_state()), {layout_.dim},
        {layout_.weight_bytes + v * layout_.vector_bytes, bytes_of(layout_.bf16_state())});
  }
  const int64_t bias_floats = layout_.state.bias_floats;
  if (bias_floats > 0) {
    Add("bias_state", TensorType::kF32, {bias_floats}, {tail + 4, 4 * bias_floats});
  }
  const int64_t row_floats = layout_.state.row_floats;
  if (row_floats > 0) {
    Add("row_state", TensorType::kF32, {row_floats},
        {tail + 4 * (1 + bias_floats), 4 * row_floats});
  }
  Add("last_step", TensorType::kU32, {}, {tail + 4 * (layout_.tail_floats - 1), 4});
}

absl::StatusOr<RowFields> RowFields::Create(const TableSpec& table, bool with_state) {
  TableSpec one = table;
  one.rows = 1;
  ASSIGN_OR_RETURN(std::unique_ptr<RowStore> store,
                   RowStore::Create(one, /*model_seed=*/0, ShardRows::All(1), {.threads = 1}));
  return RowFields(table, with_state, std::move(store));
}

void RowFields::Add(const std::string& suffix, TensorType type, std::vector<int64_t> row_shape,
                    Place place) {
  row_shape.insert(row_shape.begin(), table_.rows);
  tensors_.push_back({.name = absl::StrCat(table_.name, ".", suffix),
                      .type = type,
                      .shape = std::move(row_shape)});
  places_.push_back(place);
}

absl::StatusOr<uint64_t> RowFields::Split(RowId row, absl::Span<const char> record, Step applied,
                                          std::vector<absl::string_view>* parts) {
  // Magnitudes are those of the model that has the row.
  RETURN_IF_ERROR(store_->SetRecord(LocalRow(0), record, std::numeric_limits<float>::max()));
  stored_.assign(record.data(), record.size());
  if (IsAveraged(table_)) {
    store_->ReadAverage(LocalRow(0), applied, average_.data());
    average_bias_ = store_->AverageBias(LocalRow(0), applied);
  }
  parts->clear();
  for (const Place& place : places_) {
    const char* from = stored_.data() + place.offset;
    if (place.offset == kComputed) {
      from = reinterpret_cast<const char*>(parts->empty() ? average_.data() : &average_bias_);
    }
    parts->emplace_back(from, static_cast<size_t>(place.bytes));
  }
  const absl::Span<const char> joined = Join(*parts);
  if (with_state_ && joined != record) {
    return absl::InternalError(absl::StrCat("row ", row.value(), " of table \"", table_.name,
                                            "\" would not come back as it is"));
  }
  return RecordDigest(row, joined);
}

absl::Span<const char> RowFields::Join(absl::Span<const absl::string_view> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Place& place = places_[i];
    if (place.offset != kComputed) {
      std::memcpy(joined_.data() + place.offset, parts[i].data(), parts[i].size());
    } else if (!with_state_ && i == 0) {
      PutWeights(parts[i]);
    } else if (!with_state_) {
      std::memcpy(joined_.data() + layout_.tail_offset, parts[i].data(), parts[i].size());
    }
  }
  return joined_;
}

// Averages become the weights of rows that have no state: rounded to nearest where those are bf16.
void RowFields::PutWeights(absl::string_view weights) {
  if (!layout_.bf16_weights()) {
    std::memcpy(joined_.data(), weights.data(), weights.size());
    return;
  }
  for (int64_t i = 0; i < layout_.dim; ++i) {
    float value;
    std::memcpy(&value, weights.data() + 4 * i, sizeof(value));
    const BFloat16 rounded = ToBFloat16(value);
    std::memcpy(joined_.data() + 2 * i, &rounded, sizeof(rounded));
  }
}

}  // namespace dslide
