#include "core/engine/trees/sparse_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

constexpr uint64_t kHeaderBytes = 8;

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the record of a sparse row ", what));
}

}  // namespace

void DenseRow::Resize(int64_t columns) {
  weights.resize(static_cast<size_t>(columns));
  is_touched.resize(static_cast<size_t>(columns));
}

void DenseRow::Clear() {
  for (const uint32_t column : touched) {
    weights[column] = 0;
    is_touched[column] = 0;
  }
  touched.clear();
}

std::string EncodeSparseRow(DenseRow& row, float bias, float scale, float drop_below) {
  const auto last = std::remove_if(row.touched.begin(), row.touched.end(), [&](uint32_t column) {
    const bool dropped = !(std::abs(row.weights[column] * scale) >= drop_below);
    if (dropped) row.weights[column] = row.is_touched[column] = 0;
    return dropped;
  });
  row.touched.erase(last, row.touched.end());
  std::sort(row.touched.begin(), row.touched.end());
  SparseRowWriter record(static_cast<uint32_t>(row.touched.size()), bias);
  for (const uint32_t column : row.touched) record.Add(column, row.weights[column] * scale);
  return std::move(record).Take();
}

SparseRowWriter::SparseRowWriter(uint32_t entries, float bias)
    : entries_(entries), record_(kHeaderBytes + size_t{6} * entries, '\0') {
  std::memcpy(record_.data(), &entries, sizeof(entries));
  std::memcpy(record_.data() + sizeof(entries), &bias, sizeof(bias));
}

void SparseRowWriter::Add(uint32_t column, float weight) {
  char* const columns = record_.data() + kHeaderBytes;
  const BFloat16 rounded = ToBFloat16(weight);
  std::memcpy(columns + size_t{4} * next_, &column, sizeof(column));
  std::memcpy(columns + size_t{4} * entries_ + size_t{2} * next_, &rounded, sizeof(rounded));
  ++next_;
}

absl::Status CheckSparseRowRecord(absl::string_view record, int64_t columns) {
  if (record.size() < kHeaderBytes) return Damaged("is cut");
  uint32_t entries;
  std::memcpy(&entries, record.data(), sizeof(entries));
  if (record.size() != kHeaderBytes + uint64_t{6} * entries) {
    return Damaged(
        absl::StrCat("has ", record.size(), " bytes, which do not fit ", entries, " entries"));
  }
  const SparseRowView row(record.data());
  for (uint32_t i = 0; i < entries; ++i) {
    if (row.columns()[i] >= columns || (i > 0 && row.columns()[i] <= row.columns()[i - 1])) {
      return Damaged(absl::StrCat("has a column ", row.columns()[i], " out of order or range"));
    }
    if (!std::isfinite(ToFloat(row.weights()[i])))
      return Damaged("has a weight that is not finite");
  }
  if (!std::isfinite(row.bias())) return Damaged("has a bias that is not finite");
  return absl::OkStatus();
}

float SparseRowView::Score(const float* input) const {
  const absl::Span<const uint32_t> columns = this->columns();
  const absl::Span<const BFloat16> weights = this->weights();
  float sum = 0;
  for (size_t i = 0; i < columns.size(); ++i) sum += input[columns[i]] * ToFloat(weights[i]);
  return bias() + sum;
}

}  // namespace dslide
