// Samples as a trainer reads them: two ragged arrays, one of inputs and one of labels.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// `samples()` samples in compressed rows. Reusing one object from call to call keeps its memory.
// Thread safety: as a plain struct.
struct SparseBatch {
  // Sample s has features [feature_offsets[s], feature_offsets[s + 1]). Size samples + 1; an empty
  // batch has the single entry 0.
  std::vector<int64_t> feature_offsets = {0};
  std::vector<RowId> features;  // strictly ascending within a sample
  std::vector<float> values;    // one per feature; finite
  // Sample s has labels [label_offsets[s], label_offsets[s + 1]). Size samples + 1.
  std::vector<int64_t> label_offsets = {0};
  std::vector<RowId> labels;  // strictly ascending within a sample; may be none

  int64_t samples() const { return static_cast<int64_t>(label_offsets.size()) - 1; }

  // Views into this batch; valid until it changes. Requires 0 <= sample < samples().
  absl::Span<const RowId> FeaturesOf(int64_t sample) const {
    return Part(features, feature_offsets, sample);
  }
  absl::Span<const float> ValuesOf(int64_t sample) const {
    return Part(values, feature_offsets, sample);
  }
  absl::Span<float> MutableValuesOf(int64_t sample) {
    return {values.data() + feature_offsets[sample],
            static_cast<size_t>(feature_offsets[sample + 1] - feature_offsets[sample])};
  }
  absl::Span<const RowId> LabelsOf(int64_t sample) const {
    return Part(labels, label_offsets, sample);
  }

  // Removes all samples and keeps the memory.
  void Clear() {
    feature_offsets.assign(1, 0);
    features.clear();
    values.clear();
    label_offsets.assign(1, 0);
    labels.clear();
  }

  // Ends the sample whose features, values and labels were appended since the last call.
  void FinishSample() {
    feature_offsets.push_back(static_cast<int64_t>(features.size()));
    label_offsets.push_back(static_cast<int64_t>(labels.size()));
  }

 private:
  template <typename T>
  static absl::Span<const T> Part(const std::vector<T>& array, const std::vector<int64_t>& offsets,
                                  int64_t sample) {
    return {array.data() + offsets[sample],
            static_cast<size_t>(offsets[sample + 1] - offsets[sample])};
  }
};

}  // namespace dslide
