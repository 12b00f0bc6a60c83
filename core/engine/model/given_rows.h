// The rows that samples touch whatever hashing finds: their labels and their explicit rows.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/model/head_context.h"

namespace dslide {

// Keeps its memory from batch to batch. Not thread-safe.
class GivenRows {
 public:
  // Merges the labels and the explicit rows of each sample. A label keeps the logit offset of an
  // equal explicit row, and has the weight 1.
  void Merge(const HeadBatch& batch);

  // Sorted and unique; those that were left out are among them.
  absl::Span<const LocalRow> Of(int64_t sample) const {
    return absl::MakeConstSpan(rows_).subspan(offsets_[sample],
                                              offsets_[sample + 1] - offsets_[sample]);
  }
  // Where the rows of a sample begin in what follows; [batch + 1].
  const std::vector<uint32_t>& offsets() const { return offsets_; }
  bool IsLabel(int64_t place) const { return is_label_[place] != 0; }
  bool IsLeftOut(int64_t place) const { return has_weights_ && weights_[place] == 0.0f; }
  float LogitOffset(int64_t place) const { return logit_offsets_[place]; }
  float Weight(int64_t place) const { return has_weights_ ? weights_[place] : 1.0f; }
  // Whether any offset is not 0, and any weight not 1, by the form of the batch.
  bool has_logit_offsets() const { return has_logit_offsets_; }
  bool has_weights() const { return has_weights_; }

 private:
  bool has_logit_offsets_ = false;
  bool has_weights_ = false;
  std::vector<uint32_t> offsets_;
  std::vector<LocalRow> rows_;
  std::vector<uint8_t> is_label_;
  std::vector<float> logit_offsets_;
  std::vector<float> weights_;
};

}  // namespace dslide
