// What a selection is asked for, and what it answers.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

struct HashQuery {
  absl::Span<const uint32_t> fingerprints;  // [num_tables]; one of too many bits finds nothing
  absl::Span<const LocalRow> labels;        // sorted and unique, below num_rows once built
  // Whether missed_labels is wanted. Where it is not, samples that share candidates leave it empty.
  bool judge_labels = true;
  // The last so many places of the budget go to candidates that are drawn at random from those that
  // have no place otherwise, by `draw_key`. Not for samples that share candidates.
  int64_t drawn = 0;
  uint64_t draw_key = 0;
  // The first so many of the searched tables are looked into; 0: all of them.
  int64_t most_tables = 0;
};

// What one sample touches on this shard.
struct Selection {
  // The sample's labels, sorted; then the rows that hashing found, in an order of no meaning (equal
  // for equal tables). Unique.
  std::vector<LocalRow> active;
  // The labels that hashing alone would not have put into `active` under the same budget: found in
  // no bucket, or ranked too low. Sorted; a subset of `active`. Usually very short.
  std::vector<LocalRow> missed_labels;
  // The last `drawn` of `active` were drawn at random from `drawn_from` candidates, of which the
  // others are left_out. 0 and empty when there was room for every candidate.
  int64_t drawn = 0;
  int64_t drawn_from = 0;
  std::vector<LocalRow> left_out;

  // Whether `row` is active because hashing found it. O(active).
  bool FoundByHashing(LocalRow row) const;
};

}  // namespace dslide
