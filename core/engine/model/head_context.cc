#include "core/engine/model/head_context.h"

namespace dslide {
namespace {

// What is used, not what is reserved: reserved memory is a matter of what the context held before,
// and a replay must come to the same budget decisions.
template <typename T>
int64_t Bytes(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

}  // namespace

int64_t HeadContext::memory_bytes() const {
  return Bytes(batch.hidden) + Bytes(batch.fingerprints) + Bytes(batch.label_offsets) +
         Bytes(batch.labels) + Bytes(batch.label_targets) + Bytes(batch.label_weights) +
         Bytes(batch.recall_samples) + Bytes(rows) + Bytes(is_shared) + Bytes(pair_offsets) +
         Bytes(score_offsets) + Bytes(samples) + Bytes(is_label) + Bytes(pair_weights) +
         Bytes(tail_weights) + Bytes(scores) + Bytes(max_logits);
}

}  // namespace dslide
