// A training point as it is kept, on the disk and in memory: its sparse input and its labels.
//
// Record: u32 features, u32 labels, u32[features] feature ids, u32[labels] label ids, both strictly
// ascending, bf16[features] values. Little-endian, without gaps. Values are rounded to bf16 once,
// when the record is made, so that everything computed from it is the same everywhere.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/bfloat16.h"
#include "core/base/ids.h"

namespace dslide {

// features and labels: strictly ascending. values: [features].
std::string EncodePoint(absl::Span<const RowId> features, absl::Span<const float> values,
                        absl::Span<const RowId> labels);

// Errors: DataLoss saying what is wrong with the bytes.
absl::Status CheckPointRecord(absl::string_view record);

// Reads a checked record; does not own it. Cheap to copy.
class PointView {
 public:
  PointView() = default;
  // The record's memory is aligned to 4 bytes, as that of a string is.
  explicit PointView(const char* record) : record_(record) {}

  bool present() const { return record_ != nullptr; }
  int64_t num_features() const { return Counts()[0]; }
  int64_t num_labels() const { return Counts()[1]; }
  absl::Span<const RowId> features() const {
    return {reinterpret_cast<const RowId*>(record_ + 8), Counts()[0]};
  }
  absl::Span<const RowId> labels() const {
    return {reinterpret_cast<const RowId*>(record_ + 8) + Counts()[0], Counts()[1]};
  }
  absl::Span<const BFloat16> values() const {
    return {reinterpret_cast<const BFloat16*>(record_ + 8 + 4 * (Counts()[0] + Counts()[1])),
            Counts()[0]};
  }

 private:
  const uint32_t* Counts() const { return reinterpret_cast<const uint32_t*>(record_); }

  const char* record_ = nullptr;
};

// By point id; absent ones are not present().
using PointViews = absl::Span<const PointView>;

// Sum of squared values, in f32, in the order of the features.
float SquaredLength(PointView point);

}  // namespace dslide
