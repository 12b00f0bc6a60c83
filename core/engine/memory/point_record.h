// A training point as it is kept, on the disk and in memory: its number and time in the stream of
// points, its sparse input and its labels.
//
// Record: u32 number, u32 time, u32 features, u32 labels, u32[features] feature ids, u32[labels]
// label ids, both strictly ascending, bf16[features] values. Little-endian, without gaps. Values
// are rounded to bf16 once, when the record is made, so that everything computed from it is the
// same everywhere.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/bfloat16.h"
#include "core/base/ids.h"

namespace dslide {

// Which point it is, and how old.
struct PointStamp {
  uint32_t number = 0;  // in the stream; its row in a memory is number % rows
  uint32_t time = 0;    // in a unit of the user's
};

// features and labels: strictly ascending. values: [features].
std::string EncodePoint(absl::Span<const RowId> features, absl::Span<const float> values,
                        absl::Span<const RowId> labels, PointStamp stamp = {});

// record: aligned to 4 bytes. Errors: DataLoss saying what is wrong with the bytes.
absl::Status CheckPointRecord(absl::string_view record);

// Reads a checked record; does not own it. Cheap to copy.
class PointView {
 public:
  static constexpr size_t kHeaderBytes = 16;

  PointView() = default;
  // The record's memory is aligned to 4 bytes, as that of a string is.
  explicit PointView(const char* record) : record_(record) {}

  bool present() const { return record_ != nullptr; }
  const char* record() const { return record_; }
  uint32_t number() const { return Header()[0]; }
  uint32_t time() const { return Header()[1]; }
  uint32_t num_features() const { return Header()[2]; }
  uint32_t num_labels() const { return Header()[3]; }
  absl::Span<const RowId> features() const { return {Ids(), num_features()}; }
  absl::Span<const RowId> labels() const { return {Ids() + num_features(), num_labels()}; }
  absl::Span<const BFloat16> values() const {
    return {reinterpret_cast<const BFloat16*>(Ids() + num_features() + num_labels()),
            num_features()};
  }

 private:
  const uint32_t* Header() const { return reinterpret_cast<const uint32_t*>(record_); }
  const RowId* Ids() const { return reinterpret_cast<const RowId*>(record_ + kHeaderBytes); }

  const char* record_ = nullptr;
};

// By point id; absent ones are not present().
using PointViews = absl::Span<const PointView>;

// Sum of squared values, in f32, in the order of the features.
float SquaredLength(PointView point);

}  // namespace dslide
