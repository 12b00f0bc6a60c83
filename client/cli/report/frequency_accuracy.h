// Accuracy by how often labels occur in training: what the mean over points does not show.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide::cli {

// The labels that occur so often, and what the rankings make of them.
struct FrequencyBucket {
  std::string name;   // of training points: "3 to 10"
  int64_t least = 0;  // in [least, most]
  int64_t most = 0;
  int64_t labels = 0;      // of the model
  int64_t wanted = 0;      // pairs of a test point and one of its labels
  int64_t found_at_1 = 0;  // of these, among the first 1, 3, 5 predictions
  int64_t found_at_3 = 0;
  int64_t found_at_5 = 0;
  int64_t first = 0;        // test points whose first prediction is of the bucket
  int64_t first_right = 0;  // of these, it is right
};

// Not thread-safe.
class FrequencyAccuracy {
 public:
  // counts: [labels] training points with the label; only read here.
  explicit FrequencyAccuracy(absl::Span<const int64_t> counts);

  // Adds a point; one without labels does not count. Ids must be below the number of labels.
  //   ranked : predicted labels, best first, distinct; what is beyond the fifth is not looked at.
  //   labels : the true ones, ascending.
  void Add(absl::Span<const RowId> ranked, absl::Span<const RowId> labels);

  // By rising frequency, without those that have no label.
  std::vector<FrequencyBucket> Buckets() const;

 private:
  std::vector<FrequencyBucket> buckets_;
  std::vector<uint8_t> bucket_of_;  // [labels]
};

}  // namespace dslide::cli
