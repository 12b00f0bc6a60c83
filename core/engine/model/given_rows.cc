#include "core/engine/model/given_rows.h"

namespace dslide {

void GivenRows::Merge(const HeadBatch& batch) {
  const ExplicitRows<LocalRow>& named = batch.explicit_rows;
  has_logit_offsets_ = !named.logit_offsets.empty();
  has_weights_ = !named.weights.empty();
  offsets_.assign(1, 0);
  rows_.clear();
  is_label_.clear();
  logit_offsets_.clear();
  weights_.clear();
  for (int64_t sample = 0; sample < batch.batch(); ++sample) {
    const absl::Span<const LocalRow> labels = batch.LabelsOf(sample);
    size_t l = 0;
    size_t i = named.empty() ? 0 : named.offsets[sample];
    const size_t end = named.empty() ? 0 : named.offsets[sample + 1];
    while (l < labels.size() || i < end) {
      const bool is_label = l < labels.size() && (i == end || labels[l] <= named.rows[i]);
      const bool is_named = i < end && (!is_label || labels[l] == named.rows[i]);
      rows_.push_back(is_label ? labels[l] : named.rows[i]);
      is_label_.push_back(is_label ? 1 : 0);
      if (has_logit_offsets_) logit_offsets_.push_back(is_named ? named.logit_offsets[i] : 0.0f);
      if (has_weights_) weights_.push_back(is_label ? 1.0f : named.weights[i]);
      l += is_label ? 1 : 0;
      i += is_named ? 1 : 0;
    }
    offsets_.push_back(static_cast<uint32_t>(rows_.size()));
  }
}

}  // namespace dslide
