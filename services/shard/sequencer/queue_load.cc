#include "services/shard/sequencer/queue_load.h"

namespace dslide::shard {
namespace {

constexpr int kForgetting = 8;

}  // namespace

absl::Duration QueueLoad::Expect(size_t kind) const {
  return kind < typical_.size() ? typical_[kind] : absl::ZeroDuration();
}

void QueueLoad::Learn(size_t kind, absl::Duration took) {
  if (kind >= typical_.size()) typical_.resize(kind + 1);
  absl::Duration& typical = typical_[kind];
  typical = typical == absl::ZeroDuration() ? took : typical + (took - typical) / kForgetting;
}

void QueueLoad::Enter(int64_t bytes, absl::Duration expected) {
  bytes_ += bytes;
  work_ += expected;
}

void QueueLoad::Leave(int64_t bytes, absl::Duration expected) {
  bytes_ -= bytes;
  work_ -= expected;
}

}  // namespace dslide::shard
