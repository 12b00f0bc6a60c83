// A sparse row of weights with a bias, as it is kept.
//
// Record: u32 entries, f32 bias, u32[entries] columns, strictly ascending, bf16[entries] weights.
// Little-endian, without gaps.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/bfloat16.h"

namespace dslide {

// A row while it is made: dense weights, and which of them were touched.
struct DenseRow {
  std::vector<float> weights;  // [columns]; 0 where not touched
  std::vector<uint32_t> touched;
  std::vector<uint8_t> is_touched;  // [columns]

  void Resize(int64_t columns);
  void Touch(uint32_t column) {
    if (is_touched[column] != 0) return;
    is_touched[column] = 1;
    touched.push_back(column);
  }
  // All 0 again.
  void Clear();
};

// The touched weights of a magnitude of at least `drop_below`, times `scale`, as a record. Sorts
// row.touched.
std::string EncodeSparseRow(DenseRow& row, float bias, float scale, float drop_below);

// Writes a record whose number of entries is known.
class SparseRowWriter {
 public:
  SparseRowWriter(uint32_t entries, float bias);
  // So many times as there are entries, columns ascending.
  void Add(uint32_t column, float weight);
  std::string Take() && { return std::move(record_); }

 private:
  const uint32_t entries_;
  uint32_t next_ = 0;
  std::string record_;
};

// columns: of the inputs. Errors: DataLoss saying what is wrong with the bytes.
absl::Status CheckSparseRowRecord(absl::string_view record, int64_t columns);

// Reads a checked record; does not own it. Cheap to copy.
class SparseRowView {
 public:
  // The record's memory is aligned to 4 bytes, as that of a string is.
  explicit SparseRowView(const char* record) : record_(record) {}

  uint32_t entries() const { return *reinterpret_cast<const uint32_t*>(record_); }
  float bias() const { return *reinterpret_cast<const float*>(record_ + 4); }
  absl::Span<const uint32_t> columns() const {
    return {reinterpret_cast<const uint32_t*>(record_ + 8), entries()};
  }
  absl::Span<const BFloat16> weights() const {
    return {reinterpret_cast<const BFloat16*>(record_ + 8 + size_t{4} * entries()), entries()};
  }

  // The inner product with a dense input, [above every column], plus the bias, summed in the order
  // of the columns. For a sample of few features: sample_scorer.h.
  float Score(const float* input) const;

 private:
  const char* record_;
};

}  // namespace dslide
