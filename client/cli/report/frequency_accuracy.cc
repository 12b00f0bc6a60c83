#include "client/cli/report/frequency_accuracy.h"

#include <algorithm>
#include <limits>

namespace dslide::cli {

FrequencyAccuracy::FrequencyAccuracy(absl::Span<const int64_t> counts)
    : buckets_({{.name = "0", .least = 0, .most = 0},
                {.name = "1 to 2", .least = 1, .most = 2},
                {.name = "3 to 10", .least = 3, .most = 10},
                {.name = "11 to 100", .least = 11, .most = 100},
                {.name = "over 100", .least = 101, .most = std::numeric_limits<int64_t>::max()}}) {
  bucket_of_.reserve(counts.size());
  for (const int64_t count : counts) {
    uint8_t bucket = 0;
    while (count > buckets_[bucket].most) ++bucket;
    ++buckets_[bucket].labels;
    bucket_of_.push_back(bucket);
  }
}

void FrequencyAccuracy::Add(absl::Span<const RowId> ranked, absl::Span<const RowId> labels) {
  if (labels.empty()) return;
  const auto bucket = [&](RowId label) -> FrequencyBucket& {
    return buckets_[bucket_of_[label.value()]];
  };
  for (const RowId label : labels) {
    FrequencyBucket& mine = bucket(label);
    ++mine.wanted;
    const auto rank = std::find(ranked.begin(), ranked.end(), label) - ranked.begin();
    if (static_cast<size_t>(rank) == ranked.size()) continue;
    if (rank < 1) ++mine.found_at_1;
    if (rank < 3) ++mine.found_at_3;
    if (rank < 5) ++mine.found_at_5;
  }
  if (ranked.empty()) return;
  FrequencyBucket& first = bucket(ranked.front());
  ++first.first;
  if (std::binary_search(labels.begin(), labels.end(), ranked.front())) ++first.first_right;
}

std::vector<FrequencyBucket> FrequencyAccuracy::Buckets() const {
  std::vector<FrequencyBucket> filled;
  for (const FrequencyBucket& bucket : buckets_) {
    if (bucket.labels > 0) filled.push_back(bucket);
  }
  return filled;
}

}  // namespace dslide::cli
